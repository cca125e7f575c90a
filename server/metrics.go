package server

import (
	"net"
	"runtime"
	"slices"
	"time"

	"orcas/admin"
	"orcas/gate"
	"orcas/gate/session"
	"orcas/iam"
	"orcas/internal/build"
	"orcas/metrics"
	"orcas/s3"
)

// metricsTokenVariable is the environment variable for the token of /metrics.
const metricsTokenVariable = "ORCAS_METRICS_TOKEN_FILE"

// minMetricsToken is the minimum length of the token, so that nobody guesses it.
const minMetricsToken = 16

// counts are the metrics of a server.
type counts struct {
	registry       *metrics.Registry
	s3, iam, admin *metrics.Requests
	writes         *metrics.Writes
	started        time.Time
}

// newCounts returns the metrics of a server that has just been created.
func newCounts() (c counts, err error) {
	this := build.Read()
	if c.registry, err = metrics.New(metrics.Build{Version: this.Version, Commit: this.Commit, GoVersion: runtime.Version()}); err != nil {
		return c, err
	}
	c.s3 = metrics.NewRequests(s3.Routes())
	c.iam, c.admin = metrics.NewCounts("iam", iam.Routes()), metrics.NewCounts("admin", slices.Concat(admin.Routes(), session.Routes()))
	c.writes, c.started = &metrics.Writes{}, time.Now()
	return c, c.registry.Add(c.s3, c.iam, c.admin, c.writes)
}

// api returns the API of the metrics, which has an access rule of its own instead of signed requests.
func (s readings) api() gate.API {
	access := metrics.Access{}
	if addr, ok := s.adminListen.Addr().(*net.TCPAddr); ok {
		access.Listen = addr.AddrPort().Addr().Unmap()
	}
	if path := s.config.Settings.MetricsTokenFile; path != "" {
		access.Token = func() (string, error) { return readToken(path, minMetricsToken) }
	}
	return gate.API{Name: "metrics", Path: "/metrics", Handler: s.counts.registry.Handler(access, s.log)}
}

// setMetricsTokenFile checks the token for metrics at the start. Each request reads it again.
func setMetricsTokenFile(s *Settings, path string) error {
	s.MetricsTokenFile = path
	_, err := readToken(path, minMetricsToken)
	return err
}
