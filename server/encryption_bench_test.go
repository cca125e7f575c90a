package server

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/internal/sigv4"
)

// BenchmarkEncryption puts and gets 10 MiB over HTTP, alternating between a bucket that encrypts and one that does not.
// It reports the rate with encryption divided by the rate without, as the median of all pairs.
func BenchmarkEncryption(b *testing.B) {
	var err error
	config := Config{Data: b.TempDir(), Address: "127.0.0.1:0"}
	config.Settings, err = ReadSettings([]string{"ORCAS_MIN_FREE=0", "ORCAS_MASTER_KEY=" + keyA, "ORCAS_BUCKETS=plain,encrypted", "ORCAS_RECLAIM_ENABLED=false", "ORCAS_SCRUB_DAYS=0"})
	require.NoError(b, err)
	s, err := Open(b.Context(), config)
	require.NoError(b, err)
	go func() { _ = s.Run(b.Context()) }()
	b.Cleanup(func() { require.NoError(b, s.Close()) })
	do := func(method, path string, body []byte) time.Duration {
		r, err := http.NewRequest(method, s.Endpoint()+path, bytes.NewReader(body))
		require.NoError(b, err)
		sum := sha256.Sum256(body)
		signer := sigv4.Signer{AccessKey: s.Credentials().AccessKey, SecretKey: s.Credentials().SecretKey, Region: "us-east-1"}
		signer.Sign(r, hex.EncodeToString(sum[:]), time.Now())
		began := time.Now()
		response, err := http.DefaultClient.Do(r)
		require.NoError(b, err)
		_, err = io.Copy(io.Discard, response.Body)
		require.NoError(b, err)
		took := time.Since(began)
		require.NoError(b, response.Body.Close())
		require.Equal(b, 200, response.StatusCode)
		return took
	}
	do("PUT", "/encrypted?encryption", []byte("<ServerSideEncryptionConfiguration><Rule><ApplyServerSideEncryptionByDefault><SSEAlgorithm>AES256</SSEAlgorithm></ApplyServerSideEncryptionByDefault></Rule></ServerSideEncryptionConfiguration>"))
	body := make([]byte, 10<<20)
	_, _ = rand.NewChaCha8([32]byte{}).Read(body)
	took := map[string][]float64{}
	pair := func(method string, body []byte, round int) {
		var times [2]time.Duration
		for turn := range 2 {
			i := (turn + round) % 2
			times[i] = do(method, [...]string{"/plain/key", "/encrypted/key"}[i], body)
		}
		took[method] = append(took[method], times[0].Seconds()/times[1].Seconds())
		took[method+" plain"] = append(took[method+" plain"], times[0].Seconds())
		took[method+" encrypted"] = append(took[method+" encrypted"], times[1].Seconds())
	}
	for round := 0; b.Loop(); round++ {
		pair("PUT", body, round)
		for range 5 {
			pair("GET", nil, round)
			round++
		}
	}
	for name, list := range took {
		slices.Sort(list)
		switch middle := list[len(list)/2]; name {
		case "PUT", "GET":
			b.ReportMetric(middle, name+"-ratio")
		default:
			b.Logf("%s: median %.1f ms, best %.1f ms of %d requests", name, 1000*middle, 1000*list[0], len(list))
		}
	}
}
