package iam

import (
	"encoding/base64"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The number of items in a part of a list.
const (
	defaultItems = 100
	maxItems     = 1000
)

// listParameters are the parameters of every action with a list.
var listParameters = []string{"Marker", "MaxItems"}

// list writes the elements of a list, the part that Marker and MaxItems select, and the elements IsTruncated and Marker.
// The key of an item is unique: items are listed in the order of their keys, and a marker contains the key of the last
// item before it. So no item is skipped or repeated because others are added or removed between two requests.
func list[T any](c *call, name string, items []T, key func(T) string, write func(T)) error {
	items, next, err := page(c, items, key)
	if err != nil {
		return err
	}
	x := &c.result
	x.Open(name)
	for _, item := range items {
		x.Open("member")
		write(item)
		x.Close("member")
	}
	x.Close(name)
	c.endList(next)
	return nil
}

// endList writes the elements after a list.
func (c *call) endList(next string) {
	c.result.Bool("IsTruncated", next != "")
	c.result.Optional("Marker", next)
}

// page returns the items that Marker and MaxItems select, and the marker of the next ones; "" if there are none.
func page[T any](c *call, items []T, key func(T) string) (selected []T, next string, err error) {
	most := defaultItems
	if v, given := c.parameters["MaxItems"]; given {
		if most, err = strconv.Atoi(v); err != nil || most < 1 || most > maxItems {
			return nil, "", errValidation.saying("1 validation error detected: Value '%s' at 'maxItems' failed to satisfy "+
				"constraint: Member must be a number from 1 to %d", v, maxItems)
		}
	}
	items = slices.Clone(items)
	slices.SortFunc(items, func(a, b T) int { return strings.Compare(key(a), key(b)) })
	if v, given := c.parameters["Marker"]; given {
		after, err := base64.RawURLEncoding.DecodeString(v)
		if err != nil || len(after) == 0 {
			return nil, "", errValidation.saying("Invalid Marker.")
		}
		items = slices.DeleteFunc(items, func(item T) bool { return key(item) <= string(after) })
	}
	if len(items) > most {
		items = items[:most]
		next = base64.RawURLEncoding.EncodeToString([]byte(key(items[most-1])))
	}
	return items, next, nil
}

// writeTime writes a time in the format of IAM.
func (c *call) writeTime(name string, t time.Time) {
	c.result.Text(name, t.UTC().Format("2006-01-02T15:04:05Z"))
}

// writeDocument writes a policy document, which IAM encodes as in a URL.
func (c *call) writeDocument(name, document string) {
	c.result.Text(name, strings.ReplaceAll(url.QueryEscape(document), "+", "%20"))
}

// checkPath checks a path, which is that of an identity or a policy. There are no paths but the default.
func (c *call) checkPath(parameter string) error {
	if v, given := c.parameters[parameter]; given && v != "/" {
		return errValidation.saying("The path must be /: other paths are not supported.")
	}
	return nil
}

// inPath reports whether a list has entries under its PathPrefix: the path of all is "/".
func (c *call) inPath() bool {
	v := c.value("PathPrefix")
	return v == "" || v == "/"
}

// oneOf checks that a parameter, if it is given, has one of the values.
func (c *call) oneOf(name string, values ...string) error {
	if v, given := c.parameters[name]; given && !slices.Contains(values, v) {
		return errValidation.saying("1 validation error detected: Value '%s' at '%s' failed to satisfy constraint: "+
			"Member must satisfy enum value set: [%s]", v, lowerFirst(name), strings.Join(values, ", "))
	}
	return nil
}
