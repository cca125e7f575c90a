package sdk

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"time"
)

// UploadOptions are the options of Upload. Conditions hold when the object appears, at the end of the upload.
type UploadOptions struct {
	PutOptions

	Size     int64     // bytes of the content, if the reader does not tell; 0: unknown
	PartSize int64     // bytes; 0: 8 MiB, and more above 78 GiB. Objects of up to 16 MiB, or one part, are sent in one request
	Parallel int       // parts to send at the same time; 0: 4. Each needs memory for a part
	RefLevel *RefLevel // nil: that of the client

	// StateFile is the path of a file that describes the upload as long as it is unfinished. A later call with the same
	// file continues it: it asks the server for its parts, and sends only the others. If the source has changed, the old
	// upload is aborted and a new one begins. Without a StateFile, an upload that fails is aborted. Use each file for
	// one upload at a time.
	StateFile string

	// Progress is called during the transfer, and once at its end, by one goroutine at a time. It must return quickly.
	Progress func(Progress)
}

// Defaults of transfers.
const (
	transferParallel = 4

	// partBufferMax is the size of the largest part that is read into memory, if the source can be read twice.
	partBufferMax = 16 << 20

	// streamBuffersMax is how many bytes the parts of a reader that cannot seek may have in memory together.
	streamBuffersMax = 64 << 20

	// singleBufferMax is the size of the largest object that is read into memory before it is sent.
	singleBufferMax = 1 << 20

	// abortTimeout limits how long a failed upload tries to remove its parts.
	abortTimeout = 5 * time.Second
)

// Upload writes an object of any size with what r has from its position to its end. Large content is sent in parts. If r
// can seek or is an io.ReaderAt with a size, several parts are read at the same time; other readers are read in order,
// and buffered.
//
// The content is read once, unless parts are larger than 16 MiB or instant upload has to know its hash, and its checksum
// is verified by the server. The object appears when all of it has arrived, and never in part. If a file changes
// meanwhile, the error is ErrSourceChanged.
//
// With RefLevel, the client asks whether the server already holds the content, and sends only what is missing; see
// docs/instant.md. Servers without instant upload get all content.
func (c *Client) Upload(ctx context.Context, bucket, key string, r io.Reader, o *UploadOptions) (*Transferred, error) {
	if o == nil {
		o = &UploadOptions{}
	}
	if key == "" || bucket == "" {
		return nil, argument("Upload", bucket, key, "the bucket or the key is empty")
	}
	src, err := newSource(r, o.Size)
	if err != nil {
		return nil, err
	}
	u := &uploader{c: c, bucket: bucket, key: key, o: *o, src: src, level: c.w.config.RefLevel,
		sum: c.w.algorithm(o.Checksum), meter: &meter{report: o.Progress, upload: true, total: max(src.size, 0)}}
	if o.RefLevel != nil {
		u.level = *o.RefLevel
	}
	if u.o.Parallel <= 0 {
		u.o.Parallel = transferParallel
	}
	t := &Transferred{}
	w, err := u.run(ctx)
	u.meter.finish(t)
	if err != nil {
		return t, err
	}
	t.Written = *w
	return t, nil
}

// UploadFile is Upload for a file.
func (c *Client) UploadFile(ctx context.Context, bucket, key, path string, o *UploadOptions) (*Transferred, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return c.Upload(ctx, bucket, key, f, o)
}

// uploader is an upload in progress.
type uploader struct {
	c           *Client
	bucket, key string
	o           UploadOptions
	src         *source
	plan        partPlan
	sum         Algorithm // of the parts; None: their ETags are compared with their MD5
	level       RefLevel
	meter       *meter

	id     string         // of the multipart upload
	listed map[int]Part   // what the server had when the upload was resumed
	known  *transferState // as it was then; nil if it was not resumed
	spans  map[int]*span

	next struct {
		sync.Mutex     // guards the fields below, and the reader of the source
		number     int // of the next part
		done       bool
	}

	state *stateKeeper // nil: without a state file

	mu    sync.Mutex
	parts []Part // by number; guarded by mu
}

func (u *uploader) run(ctx context.Context) (*Written, error) {
	var err error
	if u.plan, err = planParts(u.src.size, u.o.PartSize); err != nil {
		return nil, err
	}
	if u.src.size < 0 {
		if err := u.src.readSmall(); err != nil {
			return nil, err
		}
		u.plan.size = u.src.size
		u.meter.size(u.src.size)
	}
	if u.src.size < 0 || !u.plan.single() {
		return u.multipart(ctx)
	}
	if u.src.at == nil {
		if err := u.src.readAll(); err != nil {
			return nil, err
		}
	}
	if err := u.forget(ctx); err != nil {
		return nil, err
	}
	return u.single(ctx)
}

// single sends the content in one request, or refers to it.
func (u *uploader) single(ctx context.Context) (*Written, error) {
	size := u.src.size
	o := u.o.PutOptions
	var body io.ReadSeeker = u.src.open(0, size)
	if size <= singleBufferMax { // one read, of a state that cannot change any more
		b := make([]byte, size)
		if _, err := io.ReadFull(body, b); err != nil {
			return nil, u.src.shorter(err)
		}
		body = bytes.NewReader(b)
		memory := *u.src
		memory.at, memory.base = bytes.NewReader(b), 0
		u.src = &memory
	}
	whole := &span{size: size, sha: o.SHA256}
	if err := u.decide(ctx, u.src, []*span{whole}); err != nil {
		return nil, err
	}
	if whole.refer {
		if err := u.src.unchanged(); err != nil {
			return nil, err
		}
		w, err := u.referWhole(ctx, whole)
		if w != nil || err != nil {
			return w, err
		}
	}
	if o.SHA256 == "" {
		o.SHA256 = whole.sha
	}
	if o.ChecksumValue == "" && u.sum != None {
		if whole.sum == nil {
			if err := whole.hash(ctx, u.src, u.sum, false); err != nil {
				return nil, err
			}
		}
		o.Checksum, o.ChecksumValue = u.sum, encodeSum(whole.sum)
	}
	if err := u.src.unchanged(); err != nil { // what was hashed is one state of the file, and the server compares
		return nil, err
	}
	part, f := u.meter.part(ctx)
	w, err := u.c.w.put(part, "Upload", u.bucket, u.key, body, &o, nil)
	if errors.Is(err, ErrChecksum) {
		if changed := u.src.unchanged(); changed != nil {
			return nil, changed
		}
	}
	if err == nil {
		f.complete(size)
	}
	return w, err
}

// referWhole refers to the whole content. It returns nil and no error if the content has to be sent.
func (u *uploader) referWhole(ctx context.Context, whole *span) (*Written, error) {
	o := u.o.PutOptions
	if o.ChecksumValue == "" && whole.sum != nil {
		o.Checksum, o.ChecksumValue = u.sum, encodeSum(whole.sum)
	}
	w, err := u.c.Refer(u.meter.control(ctx), u.bucket, u.key, whole.size, whole.sha, &o)
	if err == nil {
		u.meter.refer(whole.size)
		return w, nil
	}
	return nil, u.sendsInstead(err)
}

// sendsInstead returns nil if the content can be sent after an error of a question or a reference, and the error if not.
func (u *uploader) sendsInstead(err error) error {
	send, stop := refersNot(err)
	if stop {
		u.c.w.stopsAsking(u.bucket)
	}
	if !send {
		return err
	}
	return nil
}

// newState returns the state of an upload that has not begun yet.
func (u *uploader) newState() *transferState {
	id := u.src.id
	return &transferState{Version: stateVersion, Kind: stateUpload, Endpoint: u.c.Endpoint(), Bucket: u.bucket, Key: u.key,
		PartSize: u.plan.partSize, Algorithm: u.sum.Name(), Parts: []statePart{}, Source: &id, Options: hashProperties(&u.o.Properties)}
}

// hashProperties returns a hash of the properties of an object. Their customer key is part of it, but cannot be derived.
func hashProperties(p *Properties) string {
	text, err := json.Marshal(p)
	if err != nil {
		text = fmt.Appendf(nil, "%+v", p) // not reached: everything in it has a JSON form
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16])
}

// forget removes the state of an earlier upload that cannot be continued, and that upload.
func (u *uploader) forget(ctx context.Context) error {
	if u.o.StateFile == "" {
		return nil
	}
	s, err := loadState(u.o.StateFile, u.newState())
	if err != nil || s == nil {
		return err
	}
	return u.discard(ctx, s)
}

// discard aborts the upload of a state and removes its file.
func (u *uploader) discard(ctx context.Context, s *transferState) error {
	err := u.c.AbortUpload(u.meter.control(ctx), u.bucket, u.key, s.UploadID)
	if err != nil && !errors.Is(err, ErrNoSuchUpload) {
		return err
	}
	return os.Remove(u.o.StateFile)
}

// resume continues an earlier upload if there is a state of it. If that upload was already completed, it returns the
// result.
func (u *uploader) resume(ctx context.Context) (*Written, error) {
	if u.o.StateFile == "" {
		return nil, nil
	}
	want := u.newState()
	s, err := loadState(u.o.StateFile, want)
	if err != nil || s == nil {
		return nil, err
	}
	same := s.Source.same(u.src.id) || s.Source.Path == "" && u.src.id.Path == "" && s.Source.Size == u.src.id.Size
	if !same || s.PartSize != want.PartSize || s.Algorithm != want.Algorithm || s.Options != want.Options {
		return nil, u.discard(ctx, s)
	}
	listed := map[int]Part{}
	for p, err := range u.c.Parts(u.meter.control(ctx), u.bucket, u.key, s.UploadID) {
		if errors.Is(err, ErrNoSuchUpload) {
			return u.wasCompleted(ctx, s)
		}
		if err != nil {
			return nil, err
		}
		listed[p.Number] = p
	}
	known := *s
	known.Parts = slices.Clone(s.Parts)
	u.id, u.listed, u.known, u.state = s.UploadID, listed, &known, newStateKeeper(u.o.StateFile, s)
	return nil, nil
}

// wasCompleted returns the object if it is the result of the upload of a state: the program ended before it could remove
// the file. Otherwise the upload begins again.
func (u *uploader) wasCompleted(ctx context.Context, s *transferState) (*Written, error) {
	if err := os.Remove(u.o.StateFile); err != nil {
		return nil, err
	}
	if u.src.id.Path == "" || u.src.size < 0 || len(s.Parts) != u.plan.count() {
		return nil, nil
	}
	parts := make([]Part, len(s.Parts))
	for i, p := range s.Parts {
		parts[i] = Part{Number: p.Number, ETag: p.ETag}
	}
	w, err := u.completed(ctx, parts)
	if err != nil && !errors.Is(err, ErrNoSuchKey) {
		return nil, err
	}
	if w != nil {
		u.meter.resume(u.src.size)
	}
	return w, nil
}

// completed returns the object if it consists of these parts, and nil if it does not.
func (u *uploader) completed(ctx context.Context, parts []Part) (*Written, error) {
	info, err := u.c.Head(u.meter.control(ctx), u.bucket, u.key, &GetOptions{CustomerKey: u.o.Encryption.CustomerKey})
	if err != nil {
		return nil, err
	}
	if want := multipartETag(parts); want == "" || info.ETag != want || u.src.size >= 0 && info.Size != u.src.size {
		return nil, nil
	}
	return &Written{ETag: info.ETag, VersionID: info.VersionID, Checksums: info.Checksums, Size: info.Size}, nil
}
