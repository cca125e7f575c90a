package gate

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// ProxyHeader is a header in which proxies pass on the addresses of clients, in canonical form.
type ProxyHeader string

// The headers. Only one of them is believed: a proxy that sets one passes the others on as the client sent them.
const (
	XForwardedFor ProxyHeader = "X-Forwarded-For"
	Forwarded     ProxyHeader = "Forwarded"
	XRealIP       ProxyHeader = "X-Real-Ip"
)

// Proxies are the proxies that are trusted to tell the addresses of their clients. A nil *Proxies trusts nobody.
type Proxies struct {
	trusted []netip.Prefix
	header  ProxyHeader
}

// NewProxies returns the proxies with addresses in trusted, or nil if there are none.
func NewProxies(trusted []netip.Prefix, header ProxyHeader) *Proxies {
	if len(trusted) == 0 {
		return nil
	}
	return &Proxies{trusted, header}
}

// ParseProxies parses addresses and networks, such as 10.0.0.0/8.
func ParseProxies(list []string) ([]netip.Prefix, error) {
	var trusted []netip.Prefix
	for _, item := range list {
		p, err := netip.ParsePrefix(item)
		if a, e := netip.ParseAddr(item); e == nil && a.Zone() == "" {
			a = a.Unmap()
			p, err = netip.PrefixFrom(a, a.BitLen()), nil
		}
		if err != nil || p != p.Masked() {
			return nil, fmt.Errorf("%q is neither an address nor a network such as 10.0.0.0/8", item)
		}
		trusted = append(trusted, p)
	}
	return trusted, nil
}

// Trusts reports whether an address is that of a trusted proxy.
func (p *Proxies) Trusts(a netip.Addr) bool {
	if p == nil {
		return false
	}
	a = a.Unmap().WithZone("")
	return slices.ContainsFunc(p.trusted, func(t netip.Prefix) bool { return t.Contains(a) })
}

// Identify replaces r.RemoteAddr, which everything that depends on the client uses, by the address of the client, if the
// peer is a trusted proxy. Each proxy adds the address of its peer at the end of the header, so the client is the last
// one that is not a trusted proxy itself. What is left of it was written by the client and means nothing. If the header
// is missing or malformed, the proxy counts as the client. Identify reports whether it has found another client; the
// port is 0 then.
func (p *Proxies) Identify(r *http.Request) bool {
	if p == nil {
		return false
	}
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || !p.Trusts(peer.Addr()) {
		return false
	}
	a, ok := p.client(r.Header[string(p.header)])
	if ok {
		r.RemoteAddr = netip.AddrPortFrom(a, 0).String()
	}
	return ok
}

// client returns the client that the values of the header name.
func (p *Proxies) client(values []string) (netip.Addr, bool) {
	if p.header == XRealIP {
		if len(values) != 1 {
			return netip.Addr{}, false
		}
		return parseNode(strings.TrimSpace(values[0]))
	}
	last := netip.Addr{}
	for i := len(values) - 1; i >= 0; i-- {
		hops, ok := p.split(values[i])
		if !ok {
			return last, false
		}
		for j := len(hops) - 1; j >= 0; j-- {
			a, ok := p.parse(hops[j])
			if !ok || !p.Trusts(a) {
				return a, ok
			}
			last = a
		}
	}
	return last, last.IsValid() // all of them are proxies: the first one began the request
}

// split returns the elements of a value of the header.
func (p *Proxies) split(value string) ([]string, bool) {
	if p.header == Forwarded {
		return splitQuoted(value, ',')
	}
	return strings.Split(value, ","), true
}

// parse returns the address in an element of the header. An element of Forwarded has pairs: for="[2001:db8::1]:80";by=...
func (p *Proxies) parse(element string) (netip.Addr, bool) {
	element = strings.Trim(element, " \t")
	if p.header != Forwarded {
		return parseNode(element)
	}
	pairs, ok := splitQuoted(element, ';')
	if !ok {
		return netip.Addr{}, false
	}
	found := ""
	for _, pair := range pairs {
		name, value, _ := strings.Cut(strings.Trim(pair, " \t"), "=")
		if !strings.EqualFold(name, "for") {
			continue
		}
		if found != "" {
			return netip.Addr{}, false
		}
		if found = value; len(value) >= 2 && value[0] == '"' && value[len(value)-1] == '"' {
			found = value[1 : len(value)-1]
		}
	}
	return parseNode(found)
}

// splitQuoted splits a string at a separator outside of quotes. Quotes must be closed, and nothing in them may be
// escaped, since no address needs that.
func splitQuoted(s string, separator byte) ([]string, bool) {
	var parts []string
	from, quoted := 0, false
	for i := range len(s) {
		switch {
		case s[i] == '\\':
			return nil, false
		case s[i] == '"':
			quoted = !quoted
		case s[i] == separator && !quoted:
			parts = append(parts, s[from:i])
			from = i + 1
		}
	}
	return append(parts, s[from:]), !quoted
}

// parseNode returns the address in the forms 192.0.2.1, 192.0.2.1:80, 2001:db8::1, [2001:db8::1] and [2001:db8::1]:80.
func parseNode(s string) (netip.Addr, bool) {
	if inner, ok := strings.CutPrefix(s, "["); ok && strings.HasSuffix(inner, "]") {
		s = inner[:len(inner)-1]
		if !strings.Contains(s, ":") {
			return netip.Addr{}, false
		}
	} else if host, _, err := net.SplitHostPort(s); err == nil {
		if _, err := netip.ParseAddrPort(s); err != nil {
			return netip.Addr{}, false
		}
		s = host
	}
	a, err := netip.ParseAddr(s)
	return a.Unmap(), err == nil && a.Zone() == "" && !a.IsUnspecified()
}
