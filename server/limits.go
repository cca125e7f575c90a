package server

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"orcas/gate"
	"orcas/gate/limit"
)

// RateSettings limit what one client may take. 0 is no limit.
type RateSettings struct {
	KeyRate            int64 // ORCAS_LIMIT_KEY_RATE: requests per second of an access key
	KeyBandwidth       int64 // ORCAS_LIMIT_KEY_BANDWIDTH: bytes per second of an access key
	AddressRate        int64 // ORCAS_LIMIT_ADDRESS_RATE: requests per second of an address
	AddressBandwidth   int64 // ORCAS_LIMIT_ADDRESS_BANDWIDTH: bytes per second of an address
	AddressConnections int   // ORCAS_LIMIT_ADDRESS_CONNECTIONS: open connections of an address
}

// ProxySettings say which proxies are believed, and what.
type ProxySettings struct {
	Trusted []netip.Prefix   // ORCAS_TRUSTED_PROXIES
	Header  gate.ProxyHeader // ORCAS_PROXY_HEADER
}

const (
	proxiesVariable     = "ORCAS_TRUSTED_PROXIES"
	proxyHeaderVariable = "ORCAS_PROXY_HEADER"

	maxRate, maxBandwidth = 1_000_000, 1 << 40
	minBandwidth          = 16 << 10
)

// setRate returns the function that sets a number of requests per second or of connections.
func setRate[T int | int64](value func(*Settings) *T) func(*Settings, string) error {
	return func(s *Settings, v string) error {
		if v == "off" {
			*value(s) = 0
			return nil
		}
		if err := parseInt(value(s), v, 1, maxRate); err != nil {
			return fmt.Errorf("%w, or off", err)
		}
		return nil
	}
}

// setBandwidth returns the function that sets a number of bytes per second.
func setBandwidth(value func(*Settings) *int64) func(*Settings, string) error {
	return func(s *Settings, v string) error {
		if v == "off" {
			*value(s) = 0
			return nil
		}
		if err := parseSize(value(s), v, minBandwidth, maxBandwidth); err != nil {
			return fmt.Errorf("%w, or off", err)
		}
		return nil
	}
}

func setTrustedProxies(s *Settings, v string) (err error) {
	s.Proxies.Trusted, err = gate.ParseProxies(splitList(v))
	return err
}

func setProxyHeader(s *Settings, v string) error {
	for _, h := range []gate.ProxyHeader{gate.XForwardedFor, gate.Forwarded, gate.XRealIP} {
		if strings.EqualFold(v, string(h)) {
			s.Proxies.Header = h
			return nil
		}
	}
	return errors.New("expected x-forwarded-for, forwarded or x-real-ip")
}

// warnAboutProxies warns about settings with which clients choose their address, or that have no effect.
func (s *Settings) warnAboutProxies() {
	for _, p := range s.Proxies.Trusted {
		if p.Bits() == 0 {
			s.warn(proxiesVariable, "contains "+p.String()+": every client can choose the address that limits, policies and logs see")
		}
	}
	if len(s.Proxies.Trusted) == 0 && s.Proxies.Header != gate.XForwardedFor {
		s.warn(proxyHeaderVariable, "has no effect without "+proxiesVariable)
	}
}

// limits returns the limits of clients, or nil if all are off.
func (s *Server) limits() *limit.Limits {
	r := &s.config.Settings.Rates
	return limit.New(limit.Options{
		KeyRate: r.KeyRate, KeyBandwidth: r.KeyBandwidth, AddressRate: r.AddressRate, AddressBandwidth: r.AddressBandwidth,
		Now: s.now,
	})
}

// proxies returns the trusted proxies, or nil if there are none.
func (s *Server) proxies() *gate.Proxies {
	p := &s.config.Settings.Proxies
	return gate.NewProxies(p.Trusted, p.Header)
}

// perAddress counts the connections of each address, which are limited.
type perAddress struct {
	most   int                  // 0 for no limit
	exempt *gate.Proxies        // many clients share the address of a proxy
	counts map[netip.Prefix]int // guarded by limitListener.mu
}

// key returns what a connection counts for, which is not valid if it does not count.
func (p *perAddress) key(c net.Conn) netip.Prefix {
	tcp, ok := c.RemoteAddr().(*net.TCPAddr)
	if p.most == 0 || !ok || p.exempt.Trusts(tcp.AddrPort().Addr()) {
		return netip.Prefix{}
	}
	return limit.Network(tcp.AddrPort().Addr())
}

// add counts a connection, or reports that the address has too many.
func (p *perAddress) add(key netip.Prefix) bool {
	if !key.IsValid() {
		return true
	}
	if p.counts[key] >= p.most {
		return false
	}
	if p.counts == nil {
		p.counts = map[netip.Prefix]int{}
	}
	p.counts[key]++
	return true
}

// remove ends a connection.
func (p *perAddress) remove(key netip.Prefix) {
	if !key.IsValid() {
		return
	}
	if p.counts[key]--; p.counts[key] <= 0 {
		delete(p.counts, key)
	}
}

// identify returns a request whose address is that of the client, if a trusted proxy has passed it on.
func (l *limitListener) identify(r *http.Request) *http.Request {
	if !l.proxies.Identify(r) {
		return r
	}
	client, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || l.throttle == nil {
		return r
	}
	return r.WithContext(l.throttle.WithClient(r.Context(), net.TCPAddrFromAddrPort(client)))
}
