package s3

import (
	"net/http"
	"sync"
	"time"
)

// keeper sends white space while work goes on that may take longer than a client, or a proxy before it, waits for an answer.
type keeper struct {
	q       *request
	mu      sync.Mutex // of what follows, and of the answer until stop returns
	timer   *time.Timer
	stopped bool
}

// keepAlive begins the answer if what follows takes long, as S3 does it of copies: it says 200, and white space follows before
// the document, which may be an error then. What is not known yet is not in the head: the id of the version. Call stop before anything is done with the
// answer.
func (q *request) keepAlive() (stop func()) {
	k := &keeper{q: q}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.timer = time.AfterFunc(q.s.alive, k.tick)
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
		q.late, q.status = true, http.StatusOK
		q.set("Content-Type", "application/xml")
		q.w.WriteHeader(http.StatusOK)
		text = xmlHeader // only white space may not stand in front of it
	}
	n, err := q.w.Write([]byte(text))
	q.out += int64(n)
	if err == nil && http.NewResponseController(q.w).Flush() == nil {
		k.timer.Reset(q.s.alive)
	}
}

func (k *keeper) stop() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.stopped = true
	k.timer.Stop()
}
