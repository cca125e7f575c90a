package model

import (
	"encoding/xml"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/faults/result"
)

// stepped is a clock that can be moved.
type stepped struct{ ahead atomic.Int64 }

func (c *stepped) now() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }

// TestClockSteps moves the server's clock forward and backward between writes. The last write must win, whatever the
// clock said, and dates must be those of the clock. Both must remain true when the database is rebuilt from the
// records.
func TestClockSteps(t *testing.T) {
	clock := &stepped{}
	row := result.Of(t, result.Row{Fault: "clock", Name: "stepped by an hour and a day, forward and backward, between writes and across crashes", Unit: "steps"})
	m := newTestMachine(t, clock.now)
	must(t, 200)(m.do("PUT", "bucket", "", "", nil))
	steps := []time.Duration{0, time.Hour, -time.Hour, 24 * time.Hour, -24 * time.Hour, -time.Hour, time.Hour, 0}
	var last []byte
	var etag, upload string
	dates := map[string]time.Time{}
	for i, ahead := range steps {
		clock.ahead.Store(int64(ahead))
		body := random(uint64(i), 100+70_000*(i%2))
		key := fmt.Sprintf("key-%d", i)
		before := clock.now().Truncate(time.Second)
		// Another body than below, because an upload of equal content would repair damaged content.
		must(t, 200)(m.do("PUT", "bucket", key, "", append([]byte(key), body...)))
		date, err := http.ParseTime(must(t, 200)(m.do("HEAD", "bucket", key, "", nil)).header.Get("Last-Modified"))
		require.NoError(t, err)
		require.False(t, date.Before(before) || date.After(clock.now()), "the date must be the clock's: %v", date)
		dates[key] = date

		// Overwrites of one key, with and without conditions on what was there.
		if i > 0 {
			must(t, 412)(m.do("PUT", "bucket", "same", "", body, "If-None-Match", "*"))
			must(t, 412)(m.do("PUT", "bucket", "same", "", body, "If-Match", `"`+hexMD5([]byte("other"))+`"`))
			must(t, 200)(m.do("PUT", "bucket", "same", "", body, "If-Match", `"`+etag+`"`))
		} else {
			must(t, 200)(m.do("PUT", "bucket", "same", "", body, "If-None-Match", "*"))
		}
		last, etag = body, hexMD5(body)
		require.Equal(t, last, must(t, 200)(m.do("GET", "bucket", "same", "", nil)).body)

		// A key that is written again at a time before its deletion.
		must(t, 204)(m.do("DELETE", "bucket", "phoenix", "", nil))
		must(t, 404)(m.do("GET", "bucket", "phoenix", "", nil))
		must(t, 200)(m.do("PUT", "bucket", "phoenix", "", body))

		// A part of an upload, replaced at another time.
		if upload == "" {
			var got struct{ UploadId string }
			require.NoError(t, xml.Unmarshal(must(t, 200)(m.do("POST", "bucket", "upload", "uploads=", nil)).body, &got))
			upload = got.UploadId
		}
		must(t, 200)(m.do("PUT", "bucket", "upload", query("partNumber", "1", "uploadId", upload), body))
	}
	complete := fmt.Sprintf(`<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>%s</ETag></Part></CompleteMultipartUpload>`, etag)
	must(t, 200)(m.do("POST", "bucket", "upload", query("uploadId", upload), []byte(complete)))

	check := func() {
		t.Helper()
		for _, key := range []string{"same", "phoenix", "upload"} {
			require.Equal(t, last, must(t, 200)(m.do("GET", "bucket", key, "", nil)).body, key)
		}
		var page listed
		require.NoError(t, xml.Unmarshal(must(t, 200)(m.do("GET", "bucket", "", "list-type=2&prefix=key-", nil)).body, &page))
		require.Len(t, page.Contents, len(steps))
		for i, c := range page.Contents {
			require.Equal(t, fmt.Sprintf("key-%d", i), c.Key)
			require.True(t, dates[c.Key].Equal(c.LastModified.Truncate(time.Second)), c.Key)
		}
	}
	check()
	row.Tried = len(steps) + 3
	for _, ahead := range []time.Duration{-24 * time.Hour, 24 * time.Hour, 0} {
		clock.ahead.Store(int64(ahead))
		require.NoError(t, m.crash(gone))
		check()
		require.NoError(t, m.restart())
		check()
		body := random(uint64(ahead), 200)
		must(t, 200)(m.do("PUT", "bucket", "same", "", body, "If-Match", `"`+etag+`"`))
		must(t, 200)(m.do("PUT", "bucket", "phoenix", "", body))
		must(t, 200)(m.do("PUT", "bucket", "upload", "", body))
		last, etag = body, hexMD5(body)
		check()
	}
}

// TestClockAndSignatures: a signature is valid within 15 minutes of the server's clock, whatever its time is.
func TestClockAndSignatures(t *testing.T) {
	clock := &stepped{}
	m := newTestMachine(t, clock.now)
	for _, ahead := range []time.Duration{0, time.Hour, -time.Hour, 24 * time.Hour, -24 * time.Hour} {
		clock.ahead.Store(int64(ahead))
		for late, want := range map[time.Duration]int{
			0: 200, 14 * time.Minute: 200, -14 * time.Minute: 200, 16 * time.Minute: 403, -16 * time.Minute: 403, time.Hour: 403, -24 * time.Hour: 403,
		} {
			m.endpoint.now = func() time.Time { return clock.now().Add(late) }
			a := must(t, want)(m.do("PUT", "bucket", "", "", nil))
			if want == 403 {
				require.Equal(t, "RequestTimeTooSkewed", a.code())
			}
		}
		m.endpoint.now = clock.now
	}
}
