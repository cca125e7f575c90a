package gate

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/internal/sigv4"
)

const (
	throttleBurst = 30
	throttleEvery = 2 * time.Second
)

// throttled is a scheme with a Throttle and a clock.
type throttled struct {
	t      *testing.T
	log    bytes.Buffer
	now    time.Time
	asked  int // lookups that were not refused
	scheme Scheme
	*Throttle
}

func newThrottled(t *testing.T) *throttled {
	w := &throttled{t: t, now: time.Now()}
	clock := func() time.Time { return w.now }
	w.Throttle = NewThrottle(throttleBurst, throttleEvery, clock, slog.New(slog.NewTextHandler(&w.log, nil)))
	lookup := func(_ context.Context, key, _ string) (Credential, error) {
		w.asked++
		if !strings.HasPrefix(key, accessKey) {
			return Credential{}, nil
		}
		return Credential{SecretKey: secretKey, Principal: root}, nil
	}
	w.scheme = SigV4(&sigv4.Verifier{Region: "us-east-1", Now: clock}, lookup)
	return w
}

// send authenticates a request of a client.
func (w *throttled) send(client, key, secret string) error {
	r := httptest.NewRequest(http.MethodGet, "http://s3.example.org/bucket/key", nil)
	r = r.WithContext(w.WithClient(r.Context(), &net.TCPAddr{IP: net.ParseIP(client), Port: 1234}))
	s := &sigv4.Signer{AccessKey: key, SecretKey: secret, Region: "us-east-1"}
	s.Sign(r, sigv4.EmptySHA256, w.now)
	_, err := w.scheme.Authenticate(r)
	return err
}

// guess sends wrong signatures until they are refused, and returns how many were compared.
func (w *throttled) guess(client, key string) (n int) {
	for ; ; n++ {
		err := w.send(client, key, "wrong")
		require.Error(w.t, err)
		if err == ErrThrottled { //nolint:errorlint // verifiers must not wrap it
			return n
		}
		require.Less(w.t, n, 10*throttleBurst)
	}
}

// TestThrottle: a client has a number of guesses, and then more as time passes. While it has none, the right secret is
// refused too, but not for other access keys, and not from other addresses.
func TestThrottle(t *testing.T) {
	w := newThrottled(t)
	require.Equal(t, throttleBurst, w.guess("192.0.2.1", accessKey))
	require.Equal(t, throttleBurst, w.asked, "a refused request must not be verified")
	require.ErrorIs(t, w.send("192.0.2.1", accessKey, secretKey), ErrThrottled)
	require.NoError(t, w.send("192.0.2.1", accessKey+"2", secretKey))
	require.NoError(t, w.send("192.0.2.2", accessKey, secretKey))
	require.Equal(t, 1, strings.Count(w.log.String(), "too many wrong signatures"))
	require.Contains(t, w.log.String(), "client=192.0.2.1 access_key="+accessKey)
	require.NotContains(t, w.log.String(), secretKey)

	w.now = w.now.Add(throttleEvery)
	require.NoError(t, w.send("192.0.2.1", accessKey, secretKey), "a right signature is not counted")
	require.Equal(t, 1, w.guess("192.0.2.1", accessKey))
	w.now = w.now.Add(10 * throttleEvery)
	require.Equal(t, 10, w.guess("192.0.2.1", accessKey))
	w.now = w.now.Add(1000 * throttleEvery)
	require.Equal(t, throttleBurst, w.guess("192.0.2.1", accessKey))
}

// TestThrottleCounts: which failures count, and which addresses are one client.
func TestThrottleCounts(t *testing.T) {
	w := newThrottled(t)
	for range 2 * throttleBurst {
		require.NoError(t, w.send("192.0.2.1", accessKey, secretKey))
		require.ErrorContains(t, w.send("192.0.2.1", "AKIAUNKNOWN", "wrong"), string(sigv4.InvalidAccessKeyID))
	}
	require.Zero(t, w.tracked.Load(), "neither right signatures nor unknown access keys are counted")

	require.Equal(t, throttleBurst, w.guess("2001:db8::1", accessKey))
	require.ErrorIs(t, w.send("2001:db8::2:3", accessKey, secretKey), ErrThrottled, "the same network")
	require.NoError(t, w.send("2001:db8:0:1::1", accessKey, secretKey))
	require.Equal(t, throttleBurst, w.guess("::ffff:192.0.2.1", accessKey))
	require.ErrorIs(t, w.send("192.0.2.1", accessKey, secretKey), ErrThrottled, "an IPv4-mapped address is an IPv4 address")

	// Forms have another path to the same count.
	w = newThrottled(t)
	ctx := w.WithClient(t.Context(), &net.TCPAddr{IP: net.ParseIP("192.0.2.1")})
	now := w.now.UTC().Format("20060102T150405Z")
	fields := map[string]string{
		"x-amz-algorithm": "AWS4-HMAC-SHA256", "x-amz-date": now, "policy": "e30=", "x-amz-signature": strings.Repeat("0", 64),
		"x-amz-credential": accessKey + "/" + now[:8] + "/us-east-1/s3/aws4_request",
	}
	for range throttleBurst {
		_, err := w.scheme.(FormScheme).AuthenticateForm(ctx, func(name string) string { return fields[name] })
		require.ErrorContains(t, err, string(sigv4.SignatureDoesNotMatch))
	}
	require.ErrorIs(t, w.send("192.0.2.1", accessKey, secretKey), ErrThrottled)

	// Without an address, nothing is counted.
	plain := httptest.NewRequest(http.MethodGet, "http://s3.example.org/bucket/key", nil)
	s := &sigv4.Signer{AccessKey: accessKey, SecretKey: "wrong", Region: "us-east-1"}
	s.Sign(plain, sigv4.EmptySHA256, w.now)
	for range 2 * throttleBurst {
		_, err := w.scheme.Authenticate(plain)
		require.ErrorContains(t, err, string(sigv4.SignatureDoesNotMatch))
	}
}

// addressOf returns the i-th of many addresses.
func addressOf(i int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
}

// TestThrottleIsBounded: the memory does not depend on the number of clients, and clients are forgotten.
func TestThrottleIsBounded(t *testing.T) {
	w := newThrottled(t)
	for i := range maxGuesses + 100 {
		w.count(guess{networkOf(addressOf(i)), accessKey})
	}
	require.Len(t, w.guesses, maxGuesses)
	require.EqualValues(t, maxGuesses, w.tracked.Load())
	w.now = w.now.Add(time.Hour)
	w.count(guess{networkOf(addressOf(0)), "another key"})
	require.Len(t, w.guesses, 1)
	require.EqualValues(t, 1, w.tracked.Load())
}
