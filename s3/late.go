package s3

import (
	"net/http"
	"sync"
	"time"

	"orcas/s3/xmldoc"
)

// keeper sends white space during work that may outlast the timeout of a client or of a proxy in front of it.
type keeper struct {
	q       *request
	mu      sync.Mutex // guards the following fields, and the response until stop returns
	timer   *time.Timer
	stopped bool
}

// keepAlive sends the status 200 if the work that follows takes long, as S3 does for copies, and then white space until
// the response document, which may be an error document. The version ID is not known that early, so the headers do not
// include it. Call stop before using the response again.
func (q *request) keepAlive() (stop func()) {
	k := &keeper{q: q}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.timer = time.AfterFunc(q.s.times.keepAlive, k.tick)
	return k.stop
}

func (k *keeper) tick() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.stopped {
		return
	}
	q, text := k.q, " "
	if !q.late {
		q.late = true
		q.set("Content-Type", "application/xml")
		q.writeHead(http.StatusOK)
		text = xmldoc.Header // nothing may precede the XML header
	}
	n, err := q.w.Write([]byte(text))
	q.out += int64(n)
	if err == nil && http.NewResponseController(q.w).Flush() == nil {
		k.timer.Reset(q.s.times.keepAlive)
	}
}

func (k *keeper) stop() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.stopped = true
	k.timer.Stop()
}
