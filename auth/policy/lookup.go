package policy

import (
	"strings"

	"orcas/auth"
)

// ActionInfo is an action that policies know.
type ActionInfo struct {
	Name     auth.Action // as facts and decisions know it
	Resource string      // the type of its resource: none, service, bucket, object, user, group, role or policy
}

// LookupAction returns the action with a name, which policies may write in any case.
func LookupAction(name string) (info ActionInfo, known bool) {
	for _, a := range table().actions {
		if a.low == strings.ToLower(name) {
			for text, k := range kindNames {
				if k == a.kind {
					return ActionInfo{a.name, text}, true
				}
			}
		}
	}
	return ActionInfo{}, false
}

// KeyInfo is a condition key that policies know.
type KeyInfo struct {
	Name     string // as facts know it
	List     bool   // it may have several values
	OfCaller bool   // its value follows from the caller or the owner of the resource, and is never a fact of the request
}

// LookupKey returns the condition key with a name, which policies may write in any case.
func LookupKey(name string) (info KeyInfo, known bool) {
	k, ok := keyNamed(name)
	if !ok {
		return KeyInfo{}, false
	}
	e := evaluation{q: &Request{}, caller: &Caller{Principal: auth.Anonymous}}
	_, ofCaller := e.ofCaller(&k)
	return KeyInfo{k.full, k.list, ofCaller}, true
}
