package model

import (
	"bytes"
	"encoding/hex"
	"encoding/xml"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"

	"orcas/core"
)

// held is a version of a key.
type held struct {
	content string // the numbers of its pieces of content, with eight digits each; "" for a delete marker
	tags    int    // the number of the call that set its tags; 0 if it has none
	id      int    // the number of the call that wrote it, negated for a delete marker that a rename left
}

// register is the state of a key: its versions, newest first. Only with versioning can there be more than one version,
// or a delete marker.
type register []held

// pair is the state of two keys, because a rename affects two.
type pair struct {
	keys  [2]register
	wrote [2]core.Version // the last version that was written, as far as it is known
}

func (p pair) equal(o pair) bool {
	return slices.Equal(p.keys[0], o.keys[0]) && slices.Equal(p.keys[1], o.keys[1]) && p.wrote == o.wrote
}

// call is a request of a client for one key of a pair.
type call struct {
	// kind is get, tags (a get of the tags), put, create (If-None-Match: *), swap (If-Match), delete, drop (delete with
	// If-Match), tag, append, rename (to the other key), version (a get of a version) or erase (a delete of a version).
	kind     string
	at       int    // the index of the key
	versions bool   // the bucket has versioning
	number   int    // of the call, and of the content that it writes
	match    string // the content whose ETag it requires
	tags     int    // the number of the tags that it sets, which is that of the call; 0 for none
	offset   int    // at which it appends
	target   int    // the version that it names, by the number of the call that wrote it
	id       string // the ID of that version
}

// outcome is the result of a call.
type outcome struct {
	status  int          // 0 if it is unknown
	content string       // that a get found
	tags    int          // the number of tags that a get found; for tags, the number of the call that set them
	id      string       // of the version that it found or wrote; "" if there is none, or the response has no ID
	version int          // the number of the call that wrote that version; 0 if it is unknown
	seq     core.Version // the position of that version in the commit order; 0 if it is unknown
}

// writes reports whether a call writes content.
func (c call) writes() bool {
	return slices.Contains([]string{"put", "create", "swap", "append"}, c.kind)
}

// reads reports whether a call changes nothing.
func (c call) reads() bool { return slices.Contains([]string{"get", "tags", "version"}, c.kind) }

// makes returns the index of the key whose version ID is in the response to a call, and reports whether the call writes
// a version.
func (c call) makes() (at int, ok bool) {
	switch c.kind {
	case "rename":
		return 1 - c.at, true
	case "delete", "drop":
		return c.at, true
	}
	return c.at, c.writes()
}

// registers is the model of a pair for porcupine, if all outcomes are known.
var registers = porcupine.Model{
	Init: func() any { return pair{} },
	Step: func(state, input, output any) (bool, any) {
		was, in, out := state.(pair), input.(call), output.(outcome)
		// In a conflict, another call came first, and this one had no effect.
		if out.status == http.StatusConflict && (in.kind == "append" || in.kind == "rename") {
			return true, was
		}
		status, found, now := in.apply(was)
		fits := out.status == status
		if fits && status == http.StatusOK && in.reads() {
			fits = out.version == 0 || out.version == found.id
			if in.kind == "tags" {
				fits = fits && out.tags == found.tags
			} else {
				fits = fits && out.content == found.content && out.tags == countOf(found.tags)
			}
		}
		if fits && in.kind == "tag" && status == http.StatusOK && out.version != 0 {
			fits = now.keys[in.at][0].id == out.version
		}
		if at, makes := in.makes(); fits && makes && out.seq != 0 {
			// Versions are in commit order. Without this condition, every order of writes whose results are not read
			// would have to be tried.
			fits = out.seq > was.wrote[at]
			now.wrote[at] = out.seq
		}
		return fits, now
	},
	Equal: func(a, b any) bool { return a.(pair).equal(b.(pair)) },
}

// doubtful is the model of a pair for porcupine, if some outcomes are unknown. It is several times slower.
var doubtful = porcupine.NondeterministicModel{
	Init: func() []any { return []any{pair{}} },
	Step: func(state, input, output any) []any {
		was, in, out := state.(pair), input.(call), output.(outcome)
		if out.status == 0 {
			if _, _, now := in.apply(was); !now.equal(was) {
				return []any{was, now}
			}
			return []any{was}
		}
		if fits, now := registers.Step(state, input, output); fits {
			return []any{now}
		}
		return nil
	},
	Equal: func(a, b any) bool { return a.(pair).equal(b.(pair)) },
}

// current returns the version that a get finds.
func (r register) current() (held, bool) {
	if len(r) == 0 || r[0].content == "" {
		return held{}, false
	}
	return r[0], true
}

// with returns the register after a write of a version. Without versioning, that replaces the previous one.
func (r register) with(v held, versions bool) register {
	switch {
	case versions:
		return append(register{v}, r...)
	case v.content == "":
		return nil
	}
	return register{v}
}

// apply returns the expected status of a call on a pair, the version that it finds, and the resulting pair.
func (c call) apply(was pair) (status int, found held, now pair) {
	now = was
	r := was.keys[c.at]
	cur, there := r.current()
	write := func(v held) pair {
		now.keys[c.at] = r.with(v, c.versions)
		return now
	}
	switch c.kind {
	case "version", "erase":
		i := slices.IndexFunc(r, func(v held) bool { return v.id == c.target })
		switch {
		case c.kind == "erase":
			if i >= 0 {
				now.keys[c.at] = slices.Delete(slices.Clone(r), i, i+1)
			}
			return 204, held{}, now
		case i < 0:
			return 404, held{}, was
		case r[i].content == "":
			return 405, held{}, was
		}
		return 200, r[i], was
	case "create":
		if there {
			return 412, held{}, was
		}
	case "get", "tag", "tags", "rename", "swap", "drop":
		if !there && (c.kind == "tag" || c.kind == "tags") && len(r) > 0 { // of a delete marker
			return 405, held{}, was
		}
		if !there {
			return 404, held{}, was
		}
		if (c.kind == "swap" || c.kind == "drop") && cur.content != c.match {
			return 412, held{}, was
		}
	case "append":
		if sizeOf(cur.content) != c.offset {
			return 400, held{}, was
		}
	}
	switch c.kind {
	case "get", "tags":
		return 200, cur, was
	case "tag":
		now.keys[c.at] = slices.Clone(r)
		now.keys[c.at][0].tags = c.tags
		return 200, held{}, now
	case "rename":
		now.keys[1-c.at] = was.keys[1-c.at].with(held{cur.content, cur.tags, c.number}, c.versions)
		return 200, held{}, write(held{id: -c.number})
	case "delete", "drop":
		return 204, held{}, write(held{id: c.number})
	case "append":
		return 200, held{}, write(held{cur.content + name(c.number), cur.tags, c.number})
	}
	return 200, held{}, write(held{name(c.number), c.tags, c.number})
}

// name returns the number of a piece of content, as in held.content.
func name(number int) string { return fmt.Sprintf("%08d", number) }

// pieces returns the numbers of the pieces of content.
func pieces(content string) (list []int) {
	for ; content != ""; content = content[8:] {
		n, _ := strconv.Atoi(content[:8]) // written by name
		list = append(list, n)
	}
	return list
}

// valueSize returns the size of a piece of content without its suffix. Most pieces are small; some are large enough for
// a block of their own.
func valueSize(value int) int {
	if value%24 == 0 {
		return 70_000
	}
	return 20 + value*37%3000
}

func valueBytes(value int) []byte {
	return fmt.Appendf(random(uint64(value), valueSize(value)), "=%08d", value)
}

func sizeOf(content string) (n int) {
	for _, value := range pieces(content) {
		n += valueSize(value) + len("=00000000")
	}
	return n
}

// contentETag returns the ETag of a version.
func contentETag(content string) (etag string) {
	for i, value := range pieces(content) {
		sum := hexMD5(valueBytes(value))
		if i == 0 {
			etag = sum
			continue
		}
		before, _, _ := strings.Cut(etag, "-")
		raw, _ := hex.DecodeString(before + sum) // both are from hexMD5
		etag = fmt.Sprintf("%s-%d", hexMD5(raw), i+1)
	}
	return etag
}

// contentOf returns the pieces of content in a body.
func contentOf(body []byte) (content string, ok bool) {
	for len(body) > 0 {
		var value int
		if _, err := fmt.Sscanf(string(body[max(0, len(body)-9):]), "=%08d", &value); err != nil {
			return "", false
		}
		if body, ok = bytes.CutSuffix(body, valueBytes(value)); !ok {
			return "", false
		}
		content = name(value) + content
	}
	return content, content != ""
}

// request returns the elements of the request for a call.
func (c call) request(bucket, key string) (method, query string, body []byte, h []string) {
	method = "PUT"
	if c.match != "" {
		h = []string{"If-Match", `"` + contentETag(c.match) + `"`}
	}
	switch c.kind {
	case "tag":
		return method, "tagging=", tagSet(c.tags), h
	case "rename":
		return method, "renameObject=", nil, append(h, "X-Amz-Rename-Source", "/"+bucket+"/"+key)
	case "get":
		return "GET", "", nil, h
	case "tags":
		return "GET", "tagging=", nil, h
	case "version":
		return "GET", "versionId=" + c.id, nil, h
	case "delete", "drop":
		return "DELETE", "", nil, h
	case "erase":
		return "DELETE", "versionId=" + c.id, nil, h
	case "create":
		h = append(h, "If-None-Match", "*")
	case "append":
		h = append(h, "X-Amz-Write-Offset-Bytes", strconv.Itoa(c.offset))
	}
	if c.tags > 0 {
		h = append(h, "X-Amz-Tagging", tagHeader(c.tags))
	}
	return method, "", valueBytes(c.number), h
}

// send sends the call for the pair of keys with the prefix both. A response that no correct server returns is an error
// of type wrongResponse.
func (c call) send(e *endpoint, bucket, both string) (outcome, error) {
	source := keyOf(both, c.at)
	method, query, body, h := c.request(bucket, source)
	key := source
	if c.kind == "rename" {
		key = keyOf(both, 1-c.at)
	}
	a, err := e.do(method, bucket, key, query, body, h...)
	if err != nil {
		return outcome{}, err
	}
	out := outcome{status: a.status, id: a.header.Get("X-Amz-Version-Id")}
	out.seq, _ = e.ids.ParseVersion(out.id) // 0 if there is none
	if a.status != http.StatusOK {
		return out, nil
	}
	switch {
	case c.kind == "tags":
		var ok bool
		if out.tags, ok = tagsOf(a.body); !ok {
			return out, wrongResponse(fmt.Sprintf("tags that no call has set: %s", a.body))
		}
	case c.reads():
		content, ok := contentOf(a.body)
		if !ok || a.etag() != contentETag(content) {
			return out, wrongResponse(fmt.Sprintf("a body that no call has written: %d bytes, ETag %s", len(a.body), a.etag()))
		}
		out.content = content
		out.tags, _ = strconv.Atoi(a.header.Get("X-Amz-Tagging-Count"))
	case c.kind == "append":
		if size := a.header.Get("X-Amz-Object-Size"); size != strconv.Itoa(c.offset+len(body)) && c.offset > 0 {
			return out, wrongResponse(fmt.Sprintf("size %s after an append; expected %d", size, c.offset+len(body)))
		}
	case c.writes() && a.etag() != hexMD5(body):
		return out, wrongResponse(fmt.Sprintf("ETag %s after a write; expected %s", a.etag(), hexMD5(body)))
	}
	return out, nil
}

// keyOf returns a key of a pair.
func keyOf(both string, at int) string { return both + "/" + string(rune('a'+at)) }

// countOf returns the number of tags that the call with a number sets.
func countOf(number int) int {
	if number == 0 {
		return 0
	}
	return 1 + number%10
}

// tagSet returns the document with the tags that the call with a number sets. The value of each is the number.
func tagSet(number int) []byte {
	b := []byte("<Tagging><TagSet>")
	for i := range countOf(number) {
		b = fmt.Appendf(b, "<Tag><Key>%d</Key><Value>%d</Value></Tag>", i, number)
	}
	return append(b, "</TagSet></Tagging>"...)
}

// tagHeader returns the same tags in the form of the header of a PUT.
func tagHeader(number int) string {
	values := url.Values{}
	for i := range countOf(number) {
		values.Set(strconv.Itoa(i), strconv.Itoa(number))
	}
	return values.Encode()
}

// tagsOf returns the number of the call that set the tags in a document, or 0 if there are none. ok is false if no
// single call sets exactly these tags.
func tagsOf(doc []byte) (number int, ok bool) {
	var in struct {
		Tags []struct{ Key, Value string } `xml:"TagSet>Tag"`
	}
	if err := xml.Unmarshal(doc, &in); err != nil {
		return 0, false
	}
	if len(in.Tags) > 0 {
		number, _ = strconv.Atoi(in.Tags[0].Value)
	}
	for i, tag := range in.Tags {
		if tag.Key != strconv.Itoa(i) || tag.Value != strconv.Itoa(number) {
			return 0, false
		}
	}
	return number, len(in.Tags) == countOf(number)
}

type wrongResponse string

func (w wrongResponse) Error() string { return string(w) }

// TestRegister checks the model of a pair with histories whose verdicts are known.
func TestRegister(t *testing.T) {
	at := int64(0)
	op := func(c call, out outcome) porcupine.Operation { // after all previous ones
		at += 10
		return porcupine.Operation{Input: c, Output: out, Call: at, Return: at + 5}
	}
	besides := func(first, second porcupine.Operation) []porcupine.Operation {
		second.Call = first.Call
		return []porcupine.Operation{first, second}
	}
	ok, unknown := outcome{status: 200}, outcome{}
	size := func(numbers ...int) (n int) {
		for _, v := range numbers {
			n += sizeOf(name(v))
		}
		return n
	}
	get := func(status int, numbers ...int) porcupine.Operation {
		content := ""
		for _, n := range numbers {
			content += name(n)
		}
		return op(call{kind: "get"}, outcome{status: status, content: content})
	}
	other := func(o porcupine.Operation) porcupine.Operation {
		c := o.Input.(call)
		c.at = 1
		o.Input = c
		return o
	}
	versioned := func(ops ...porcupine.Operation) []porcupine.Operation {
		for i := range ops {
			c := ops[i].Input.(call)
			c.versions = true
			ops[i].Input = c
		}
		return ops
	}
	list := func(ops ...porcupine.Operation) []porcupine.Operation { return ops }
	put := func(n int) porcupine.Operation { return op(call{kind: "put", number: n}, ok) }
	lost := func(n int) porcupine.Operation { return op(call{kind: "put", number: n}, unknown) }
	tag := func(out outcome) porcupine.Operation { return op(call{kind: "tag", tags: 2}, out) }
	tagged := func() porcupine.Operation {
		return op(call{kind: "get"}, outcome{status: 200, content: name(1), tags: countOf(2)})
	}
	tags := func(status, number int) porcupine.Operation {
		return op(call{kind: "tags"}, outcome{status: status, tags: number})
	}
	putTagged := func(n int, out outcome) porcupine.Operation {
		return op(call{kind: "put", number: n, tags: n}, out)
	}
	add := func(n, offset int, out outcome) porcupine.Operation {
		return op(call{kind: "append", number: n, offset: offset}, out)
	}
	rename := func(n int, out outcome) porcupine.Operation { return op(call{kind: "rename", number: n}, out) }
	remove := func(n int) porcupine.Operation { return op(call{kind: "delete", number: n}, outcome{status: 204}) }
	version := func(target, status int, content string) porcupine.Operation {
		return op(call{kind: "version", target: target}, outcome{status: status, content: content, version: target})
	}
	erase := func(target int) porcupine.Operation {
		return op(call{kind: "erase", target: target}, outcome{status: 204})
	}
	created := func(n int) porcupine.Operation { return op(call{kind: "create", number: n}, ok) }
	for name, c := range map[string]struct {
		ops  []porcupine.Operation
		want bool
	}{
		"read back":                                 {list(put(1), get(200, 1)), true},
		"lost":                                      {list(put(1), get(404)), false},
		"an unknown put happened":                   {list(put(1), lost(2), get(200, 2)), true},
		"an unknown put did not happen":             {list(put(1), lost(2), get(200, 1)), true},
		"an unknown put that happens later":         {list(put(1), lost(2), get(200, 1), get(200, 2)), false},
		"an unknown put that loses the old value":   {list(put(1), lost(2), get(404)), false},
		"two winners":                               {besides(created(1), created(2)), false},
		"a refusal without a reason":                {list(op(call{kind: "create", number: 1}, outcome{status: 412})), false},
		"a swap of another value":                   {list(put(1), op(call{kind: "swap", number: 3, match: name(2)}, ok)), false},
		"tags":                                      {list(put(1), tag(ok), tagged()), true},
		"tags that are lost":                        {list(put(1), tag(ok), get(200, 1)), false},
		"tags set on a missing key":                 {list(tag(ok)), false},
		"unknown tags were set":                     {list(put(1), tag(unknown), tagged()), true},
		"tags of another call":                      {list(put(1), tag(ok), tags(200, 3)), false},
		"tags, read as a document":                  {list(put(1), tag(ok), tags(200, 2)), true},
		"no tags":                                   {list(put(1), tags(200, 0)), true},
		"tags read from a missing key":              {list(tags(404, 0)), true},
		"unknown tags were set, read as a document": {list(put(1), tag(unknown), tags(200, 2)), true},
		"unknown tags that are set later":           {list(put(1), tag(unknown), tags(200, 0), tags(200, 2)), false},
		"an unknown put that loses the old tags":    {list(put(1), tag(ok), lost(3), tags(200, 0), get(200, 1)), false},
		"put with tags":                             {list(putTagged(1, ok), tags(200, 1)), true},
		"put with tags that are lost":               {list(putTagged(1, ok), tags(200, 0)), false},
		"a put removes the tags":                    {list(putTagged(1, ok), put(2), tags(200, 0)), true},
		"tags that outlive a put":                   {list(putTagged(1, ok), put(2), tags(200, 1)), false},
		"half of an unknown put":                    {list(putTagged(1, unknown), tags(200, 0)), false},
		"an append keeps the tags":                  {list(putTagged(1, ok), add(2, size(1), ok), tags(200, 1)), true},
		"an append that drops the tags":             {list(putTagged(1, ok), add(2, size(1), ok), tags(200, 0)), false},
		"a rename that drops the tags":              {list(putTagged(1, ok), rename(2, ok), other(tags(200, 0))), false},
		"a deletion that is lost":                   {list(put(1), remove(2), get(200, 1)), false},

		"appended":                                           {list(put(1), add(2, size(1), ok), get(200, 1, 2)), true},
		"an append that is lost":                             {list(put(1), add(2, size(1), ok), get(200, 1)), false},
		"an append that replaces the content":                {list(put(1), add(2, size(1), ok), get(200, 2)), false},
		"an append to a missing key":                         {list(add(2, 0, ok), get(200, 2)), true},
		"two appends at the same offset":                     {append(list(put(1)), besides(add(2, size(1), ok), add(3, size(1), ok))...), false},
		"an append at a wrong offset":                        {list(put(1), add(2, 7, ok)), false},
		"a refused append":                                   {list(put(1), add(2, 7, outcome{status: 400}), get(200, 1)), true},
		"an append refused without a reason":                 {list(put(1), add(2, size(1), outcome{status: 400})), false},
		"an append with a conflict":                          {list(put(1), add(2, size(1), outcome{status: 409}), get(200, 1)), true},
		"an append with a conflict that happened":            {list(put(1), add(2, size(1), outcome{status: 409}), get(200, 1, 2)), false},
		"an unknown append happened":                         {list(put(1), add(2, size(1), unknown), get(200, 1, 2)), true},
		"half of an unknown append":                          {list(put(1), add(2, size(1), unknown), get(200, 2)), false},
		"renamed":                                            {list(put(1), rename(2, ok), get(404), other(get(200, 1))), true},
		"a rename that leaves the source":                    {list(put(1), rename(2, ok), get(200, 1)), false},
		"a rename that loses the object":                     {list(put(1), rename(2, ok), other(get(404))), false},
		"a rename of a missing key":                          {list(rename(2, ok)), false},
		"two renames of the same object":                     {append(list(put(1)), besides(rename(2, ok), rename(3, ok))...), false},
		"a rename that does not replace":                     {list(other(put(3)), put(1), rename(2, ok), other(get(200, 3))), false},
		"a rename keeps the tags":                            {list(put(1), tag(ok), rename(2, ok), other(tagged())), true},
		"an unknown rename happened":                         {list(put(1), rename(2, unknown), get(404), other(get(200, 1))), true},
		"half of an unknown rename, which loses the object":  {list(put(1), rename(2, unknown), get(404), other(get(404))), false},
		"half of an unknown rename, which copies the object": {list(put(1), rename(2, unknown), other(get(200, 1)), get(200, 1)), false},

		"an old version":                             {versioned(put(1), put(2), version(1, 200, name(1)), get(200, 2)), true},
		"an old version that is lost":                {versioned(put(1), put(2), version(1, 404, "")), false},
		"an old version with other content":          {versioned(put(1), put(2), version(1, 200, name(2))), false},
		"a delete marker hides the version":          {versioned(put(1), remove(2), get(404), version(1, 200, name(1)), version(2, 405, "")), true},
		"a delete marker has no tags":                {versioned(putTagged(1, ok), remove(2), tags(405, 0)), true},
		"a delete marker with tags":                  {versioned(putTagged(1, ok), remove(2), tags(200, 1)), false},
		"a delete marker that hides nothing":         {versioned(put(1), remove(2), get(200, 1)), false},
		"a delete marker is deleted":                 {versioned(put(1), remove(2), erase(2), get(200, 1)), true},
		"a delete marker that outlives its deletion": {versioned(put(1), remove(2), erase(2), get(404)), false},
		"the newest version is deleted":              {versioned(put(1), put(2), erase(2), get(200, 1)), true},
		"a deleted version that comes back":          {versioned(put(1), put(2), erase(1), version(1, 200, name(1))), false},
		"an old version is deleted":                  {versioned(put(1), put(2), erase(1), get(200, 2)), true},
		"a rename leaves the older version":          {versioned(put(1), rename(2, ok), version(1, 200, name(1)), get(404), other(version(2, 200, name(1)))), true},
		"a rename that removes the history":          {versioned(put(1), rename(2, ok), version(1, 404, "")), false},
		"an append adds a version":                   {versioned(put(1), add(2, size(1), ok), version(1, 200, name(1)), version(2, 200, name(1)+name(2))), true},
		"an append that changes a version":           {versioned(put(1), add(2, size(1), ok), version(1, 200, name(1)+name(2))), false},
		"versions in commit order":                   {versioned(op(call{kind: "put", number: 1}, outcome{status: 200, seq: 1}), op(call{kind: "put", number: 2}, outcome{status: 200, seq: 2})), true},
		"versions in another order":                  {versioned(op(call{kind: "put", number: 1}, outcome{status: 200, seq: 2}), op(call{kind: "put", number: 2}, outcome{status: 200, seq: 1})), false},
		"a get of another version":                   {versioned(put(1), op(call{kind: "get"}, outcome{status: 200, content: name(1), version: 2})), false},
		"an old version without versioning":          {list(put(1), put(2), version(1, 200, name(1))), false},
	} {
		require.Equal(t, c.want, porcupine.CheckOperations(doubtful.ToModel(), c.ops), name)
		require.Equal(t, c.want, judge(c.ops, true) == porcupine.Ok, name)
	}
}

// manyUnknown is the history of a key in a bucket with versioning: client, begin, end (in us), kind, number, match,
// tags; status, content. Each of three crashes interrupted up to a dozen calls. The content of put 18890 was read. That
// one of the deletions before the second crash happened, and the put or the append before the third, follows only from
// refusals.
const manyUnknown = `
8 0 28986 append 18882 - 0 0 -
10 66 779 get 18885 - 0 404 -
2 72 28986 append 18886 - 0 0 -
11 84 884 get 18887 - 0 404 -
12 101 695 swap 18888 00000001 18888 404 -
3 102 28986 append 18889 - 0 0 -
4 128 28986 put 18890 - 0 0 -
5 154 628 get 18891 - 0 404 -
6 173 28986 create 18892 - 0 0 -
7 192 673 swap 18893 00000001 0 404 -
14 223 28986 drop 18894 00000001 0 0 -
15 265 28986 put 18896 - 18896 0 -
5 630 28986 create 18897 - 0 0 -
7 673 28986 create 18899 - 0 0 -
12 695 28986 create 18900 - 18900 0 -
2 29193 54498 delete 18910 - 0 0 -
10 29232 31117 get 18917 - 0 200 00018890
14 29233 31069 append 18909 - 0 400 -
6 29272 31000 swap 18908 00000001 18908 412 -
3 29368 30924 swap 18906 00000001 0 412 -
8 29517 54498 drop 18913 00000001 0 0 -
5 29550 54498 delete 18912 - 0 0 -
4 30951 54498 delete 18922 - 0 0 -
0 30975 54498 drop 18923 00000001 0 0 -
6 31000 54498 put 18924 - 0 0 -
9 31046 54498 append 18925 - 0 0 -
14 31069 54498 create 18926 - 18926 0 -
7 31137 54498 create 18928 - 0 0 -
11 31167 54498 put 18929 - 0 0 -
14 55272 57210 get 18941 - 0 404 -
1 55855 57241 get 18938 - 0 404 -
6 55913 162220 drop 18936 00018890 0 0 -
0 55968 162220 drop 18935 00018890 0 0 -
15 56009 57517 swap 18934 00018890 0 404 -
5 56076 162220 put 18932 - 0 0 -
15 57519 162220 append 18943 - 0 0 -
8 162255 163101 append 18944 - 0 400 -
`

// TestJudgeOfManyUnknown judges a history for which a search of all orders would not end.
func TestJudgeOfManyUnknown(t *testing.T) {
	var ops []porcupine.Operation
	for line := range strings.Lines(strings.TrimSpace(manyUnknown)) {
		in, out := call{versions: true}, outcome{}
		var op porcupine.Operation
		_, err := fmt.Sscan(line, &op.ClientId, &op.Call, &op.Return, &in.kind, &in.number, &in.match, &in.tags, &out.status, &out.content)
		require.NoError(t, err, line)
		in.match, out.content = strings.Trim(in.match, "-"), strings.Trim(out.content, "-")
		op.Input, op.Output = in, out
		ops = append(ops, op)
	}
	require.Equal(t, porcupine.Ok, judge(ops, true))
}
