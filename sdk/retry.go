package sdk

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Retry is when a client repeats requests. A request is repeated if its connection fails, if the server is overloaded
// or reports an internal error, and if the body was damaged on the way. Between attempts the client waits for a random
// time up to DelayMin*2^n, at most DelayMax, or for as long as the server asks in Retry-After, up to a minute.
//
// The budget keeps clients from multiplying the load of a server in trouble. All requests of a client share it. It is a
// number of tokens: a retry costs 5, or 10 after an error of the connection. A success after a retry returns what the
// retry cost, any other success returns 1. If the budget is empty, requests fail without a retry.
type Retry struct {
	Attempts           int           // requests per operation; 0: 5; 1: no retries
	DelayMin, DelayMax time.Duration // 0: 50 ms and 5 s
	Budget             int           // tokens; 0: 500
}

const (
	retryCost        = 5
	retryCostNetwork = 10
	retryAfterMax    = time.Minute
)

// withDefaults returns r with its defaults.
func (r Retry) withDefaults() (Retry, error) {
	if r.Attempts < 0 || r.DelayMin < 0 || r.DelayMax < 0 || r.Budget < 0 {
		return r, fmt.Errorf("sdk: Config.Retry is %+v, expected no negative number", r)
	}
	if r.Attempts == 0 {
		r.Attempts = 5
	}
	if r.DelayMin == 0 {
		r.DelayMin = 50 * time.Millisecond
	}
	if r.DelayMax == 0 {
		r.DelayMax = max(5*time.Second, r.DelayMin)
	}
	if r.DelayMin > r.DelayMax {
		return r, fmt.Errorf("sdk: Config.Retry.DelayMin is %s, more than DelayMax (%s)", r.DelayMin, r.DelayMax)
	}
	if r.Budget == 0 {
		r.Budget = 500
	}
	return r, nil
}

// delay returns how long to wait before the attempt n, from 2.
func (r *Retry) delay(n int, after time.Duration) time.Duration {
	if after > 0 {
		return min(after, retryAfterMax)
	}
	limit := r.DelayMax
	if shift := n - 2; shift < 30 && r.DelayMin<<shift < limit && r.DelayMin<<shift > 0 {
		limit = r.DelayMin << shift
	}
	return rand.N(limit) + 1
}

// budget is the tokens for retries.
type budget struct {
	mu        sync.Mutex
	left, max int // guarded by mu
}

func (b *budget) init(n int) { b.left, b.max = n, n }

// take reports whether a retry may happen, and takes its cost.
func (b *budget) take(cost int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.left < cost {
		return false
	}
	b.left -= cost
	return true
}

// put returns tokens after a success.
func (b *budget) put(n int) {
	b.mu.Lock()
	b.left = min(b.left+n, b.max)
	b.mu.Unlock()
}

// failure is a failed attempt.
type failure struct {
	err       *Error
	again     bool          // it makes sense to try again
	network   bool          // there was no response
	uncertain bool          // the server may have done it
	after     time.Duration // how long the server asks to wait; 0 is unspecified
}

// sleep waits, or returns the cause why ctx ended.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// retryAfter returns the time in a Retry-After header.
func retryAfter(h http.Header, now time.Time) time.Duration {
	v := strings.TrimSpace(h.Get("Retry-After"))
	if v == "" {
		return 0
	}
	if s, err := strconv.ParseInt(v, 10, 32); err == nil {
		return max(0, time.Duration(s)*time.Second)
	}
	if t, err := http.ParseTime(v); err == nil {
		return max(0, t.Sub(now))
	}
	return 0
}

// temporary reports whether a response with this status and code may be followed by another one.
func temporary(status int, code string) bool {
	switch code {
	case "InternalError", "SlowDown", "ServiceUnavailable", "RequestTimeout", "IncompleteBody", "OperationAborted", "Busy", "ThrottlingException",
		"Throttling", "RequestLimitExceeded", "BandwidthLimitExceeded", "RequestThrottled", "TooManyRequests":
		return true
	}
	switch status {
	case http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusBadGateway,
		http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// damagedOnTheWay reports whether the server received another body than the one whose checksum was sent.
func damagedOnTheWay(code string) bool {
	return code == "BadDigest" || code == "XAmzContentSHA256Mismatch" || code == "XAmzContentChecksumMismatch"
}

// mayHaveHappened reports whether a server that responds with this status may have done what was asked.
func mayHaveHappened(status int) bool {
	return status == http.StatusInternalServerError || status == http.StatusBadGateway || status == http.StatusGatewayTimeout
}

// wasNotSent reports whether an error of the transport means that no byte of the request was sent.
func wasNotSent(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && (op.Op == "dial" || op.Op == "proxyconnect") || errors.Is(err, errNotSent)
}

var errNotSent = errors.New("not sent")
