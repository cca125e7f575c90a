package policy

import (
	_ "embed"
	"fmt"
	"strings"
	"sync"

	"orcas/auth"
)

// actionsFile is the table of actions and condition keys. Its comments explain its format. The sources are the Service
// Authorization Reference of AWS, with the pages for S3, IAM and STS
// (https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazons3.html), and the global condition
// keys in the IAM User Guide
// (https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_condition-keys.html).
//
//go:embed actions.txt
var actionsFile string

// kind is the type of the resource of an action.
type kind uint8

const (
	kindNone    kind = iota // no resource
	kindService             // S3 as a whole
	kindBucket
	kindObject
	kindUser
	kindGroup
	kindRole
	kindPolicy
)

var kindNames = map[string]kind{
	"none": kindNone, "service": kindService, "bucket": kindBucket, "object": kindObject,
	"user": kindUser, "group": kindGroup, "role": kindRole, "policy": kindPolicy,
}

// kinds is a set of kinds.
type kinds uint16

const (
	allKinds kinds = 1<<(kindPolicy+1) - 1
	s3Kinds  kinds = 1<<kindBucket | 1<<kindObject // the kinds that a bucket policy can be about
)

func (k kinds) has(one kind) bool { return k&(1<<one) != 0 }

// keyInfo is a condition key of the table.
type keyInfo struct {
	name   string // as in the table; ends with "/" if the key of a tag follows
	id     int
	global bool // applies to every action
	list   bool // may have several values
	varies bool // depends on the object, the version or the listing
}

// maxKeys and maxActions are the sizes of the sets below.
const (
	maxKeys    = 128
	maxActions = 256
)

type keySet [maxKeys / 64]uint64

func (s *keySet) add(id int)      { s[id/64] |= 1 << (id % 64) }
func (s *keySet) has(id int) bool { return s[id/64]&(1<<(id%64)) != 0 }

// action is an action of the table.
type action struct {
	name auth.Action
	low  string // the name in lower case
	id   int
	kind kind
	keys keySet // the keys of services that apply to it
}

// supports reports whether a condition key applies to the action.
func (a *action) supports(k *keyInfo) bool { return k.global || a.keys.has(k.id) }

// isS3 reports whether the action belongs to S3.
func (a *action) isS3() bool { return strings.HasPrefix(string(a.name), "s3:") }

// isTrust reports whether trust policies are about the action.
func (a *action) isTrust() bool {
	return a.kind == kindRole && strings.HasPrefix(string(a.name), "sts:")
}

type actionSet [maxActions / 64]uint64

func (s *actionSet) add(id int)      { s[id/64] |= 1 << (id % 64) }
func (s *actionSet) has(id int) bool { return s[id/64]&(1<<(id%64)) != 0 }

// tables is the content of actionsFile.
type tables struct {
	actions []*action
	byName  map[auth.Action]*action
	keys    map[string]*keyInfo // by name in lower case
}

// table returns the table. It is parsed once.
var table = sync.OnceValue(func() *tables {
	t, err := parseTable(actionsFile)
	if err != nil {
		panic("policy: actions.txt: " + err.Error()) // TestTable parses the same file
	}
	return t
})

// parseTable parses the format that actions.txt describes.
func parseTable(text string) (*tables, error) {
	t := &tables{byName: map[auth.Action]*action{}, keys: map[string]*keyInfo{}}
	sets := map[string][]*keyInfo{}
	number := 0
	for line := range strings.Lines(text) {
		number++
		words := strings.Fields(line)
		if len(words) > 0 && words[0] == "+" {
			words = words[1:]
		}
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		var err error
		switch {
		case len(words) < 2:
			err = fmt.Errorf("expected at least two words, found %q", words[0])
		case words[0] == "key":
			err = t.addKey(words[1], words[2:])
		case words[0] == "set":
			sets[words[1]], err = t.resolve(words[2:], sets)
		default:
			err = t.addAction(words, sets)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
	}
	return t, nil
}

func (t *tables) addKey(name string, flags []string) error {
	k := &keyInfo{name: name, id: len(t.keys), global: strings.HasPrefix(name, "aws:")}
	for _, f := range flags {
		switch f {
		case "list":
			k.list = true
		case "varies":
			k.varies = true
		default:
			return fmt.Errorf("expected list or varies, found %q", f)
		}
	}
	if t.keys[strings.ToLower(name)] != nil || k.id == maxKeys {
		return fmt.Errorf("the key %s exists already, or there are more than %d keys", name, maxKeys)
	}
	t.keys[strings.ToLower(name)] = k
	return nil
}

// resolve returns the keys that the words stand for: keys, and sets of keys.
func (t *tables) resolve(words []string, sets map[string][]*keyInfo) (list []*keyInfo, err error) {
	for _, w := range words {
		if set, ok := sets[w]; ok {
			list = append(list, set...)
		} else if k := t.keys[strings.ToLower(w)]; k != nil && k.name == w {
			list = append(list, k)
		} else {
			return nil, fmt.Errorf("expected a key or a set of keys, found %q", w)
		}
	}
	return list, nil
}

func (t *tables) addAction(words []string, sets map[string][]*keyInfo) error {
	a := &action{name: auth.Action(words[0]), low: strings.ToLower(words[0]), id: len(t.actions)}
	of, ok := kindNames[words[1]]
	if !ok {
		return fmt.Errorf("expected the type of a resource, found %q", words[1])
	}
	a.kind = of
	keys, err := t.resolve(words[2:], sets)
	if err != nil {
		return err
	}
	for _, k := range keys {
		a.keys.add(k.id)
	}
	if t.byName[a.name] != nil || a.id == maxActions {
		return fmt.Errorf("the action %s exists already, or there are more than %d actions", a.name, maxActions)
	}
	t.actions, t.byName[a.name] = append(t.actions, a), a
	return nil
}

// conditionKey is a condition key in a policy.
type conditionKey struct {
	*keyInfo
	full string // the name by which facts know it: as in the table, and the key of the tag as in the policy
	tag  string // the key of the tag, if there is one
}

// keyNamed returns the condition key with a name, in any case. The key of a tag keeps its case.
func keyNamed(name string) (k conditionKey, ok bool) {
	t := table()
	if info := t.keys[strings.ToLower(name)]; info != nil && !strings.HasSuffix(info.name, "/") {
		return conditionKey{keyInfo: info, full: info.name}, true
	}
	service, tag, _ := strings.Cut(name, "/")
	info := t.keys[strings.ToLower(service)+"/"]
	if info == nil || tag == "" {
		return conditionKey{}, false
	}
	return conditionKey{info, info.name + tag, tag}, true
}

// CanonicalKey returns the name by which facts know a condition key, which policies may write in any case.
func CanonicalKey(name string) (canonical string, known bool) {
	k, ok := keyNamed(name)
	return k.full, ok
}

// Supports reports whether policies know an action, and whether a condition key applies to it.
func Supports(a auth.Action, key string) (known, applies bool) {
	found := table().byName[a]
	if found == nil {
		return false, false
	}
	k, ok := keyNamed(key)
	return true, ok && found.supports(k.keyInfo)
}

// IsOfObjects reports whether the resources of an action are objects.
func IsOfObjects(a auth.Action) bool {
	found := table().byName[a]
	return found != nil && found.kind == kindObject
}
