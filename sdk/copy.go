package sdk

import (
	"context"
	"crypto/rand"
	"encoding/xml"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"orcas/internal/sigv4"
)

const (
	copyMax      = 5 << 30   // the size in bytes of the largest object that one request copies
	copyPart     = 512 << 20 // the size in bytes of the parts in which larger objects are copied, unless there are too many
	copyParallel = 4         // parts that are copied at the same time
)

// CopyOptions are the options of copies and moves.
type CopyOptions struct {
	Conditions        Conditions  // of the target: IfMatch and IfNoneMatch
	Source            Conditions  // of the source
	SourceCustomerKey []byte      // the key of the source, if it is encrypted with one
	Encryption        Encryption  // of the copy
	StorageClass      string      // of the copy; "" is STANDARD
	Lock              Lock        // of the copy
	Replace           *Properties // Copy only: the metadata of the copy; nil is that of the source. The tags are those of the source unless Tags is set
	Tags              map[string]string
	ReplaceTags       bool      // Copy only: use Tags, even if it is empty
	Checksum          Algorithm // of the copy; None is that of the source
	Size              int64     // the size of the source in bytes, if it is known; it saves a request for objects above 5 GiB
	ClientToken       string    // Rename and Move only: makes repetitions of the request change nothing; "" is a new one
}

// Copy copies an object on the server, without sending its content. Objects above 5 GiB are copied in parts: such a copy
// has another ETag than its source.
func (c *Client) Copy(ctx context.Context, from Source, bucket, key string, o *CopyOptions) (*Written, error) {
	if o == nil {
		o = &CopyOptions{}
	}
	if o.Size > copyMax {
		return copyParts(ctx, c, from, bucket, key, o)
	}
	w, err := c.w.copyObject(ctx, from, bucket, key, o)
	var e *Error
	if o.Size == 0 && errors.As(err, &e) && (e.Code == "EntityTooLarge" || e.Code == "InvalidRequest") {
		if info, headErr := c.Head(ctx, from.Bucket, from.Key, from.options(o)); headErr == nil && info.Size > copyMax {
			return copyParts(ctx, c, from, bucket, key, o)
		}
	}
	return w, err
}

// options returns the options to read a source.
func (from Source) options(o *CopyOptions) *GetOptions {
	return &GetOptions{VersionID: from.VersionID, CustomerKey: o.SourceCustomerKey, Conditions: o.Source}
}

// copyObject is Copy for objects of up to 5 GiB.
func (w *wire) copyObject(ctx context.Context, from Source, bucket, key string, o *CopyOptions) (*Written, error) {
	q, err := w.copyCall("Copy", from, bucket, key)
	if err != nil {
		return nil, err
	}
	p := Properties{}
	if o.Replace != nil {
		p = *o.Replace
		set(q.header, "X-Amz-Metadata-Directive", "REPLACE")
	}
	if o.ReplaceTags || o.Tags != nil {
		p.Tags = o.Tags
		set(q.header, "X-Amz-Tagging-Directive", "REPLACE")
	}
	p.Encryption, p.StorageClass, p.Lock = o.Encryption, o.StorageClass, o.Lock
	if err := errors.Join(p.write(q.header, w.secure), customerKey(q.header, sourceCustomerPrefix, o.SourceCustomerKey, w.secure)); err != nil {
		return nil, q.localError(err)
	}
	if o.Checksum != None {
		set(q.header, "X-Amz-Checksum-Algorithm", o.Checksum.Name())
	}
	o.Conditions.write(q.header, "If-")
	o.Source.write(q.header, "X-Amz-Copy-Source-If-")
	return w.copied(ctx, q, "CopyObjectResult")
}

// copyCall returns a call for a copy.
func (w *wire) copyCall(op string, from Source, bucket, key string) (*call, error) {
	q, err := objectCall(op, http.MethodPut, bucket, key)
	if err != nil {
		return nil, err
	}
	if from.Bucket == "" || from.Key == "" {
		return nil, argument(op, bucket, key, "the source has no bucket or no key")
	}
	from.write(q.header)
	return q, nil
}

// copied sends a call whose response is the document of a copy.
func (w *wire) copied(ctx context.Context, q *call, root string) (*Written, error) {
	r, err := w.do(ctx, q)
	if err != nil {
		return nil, err
	}
	var doc struct {
		XMLName xml.Name
		partDocument
	}
	if err := q.parse(r, &doc); err != nil {
		return nil, err
	}
	if doc.XMLName.Local != root {
		return nil, q.localError(failed(ErrProtocol, "the response is the document %s, expected %s", doc.XMLName.Local, root))
	}
	p := doc.part()
	if p.ETag == "" {
		return nil, q.localError(failed(ErrProtocol, "the response has no ETag"))
	}
	return &Written{ETag: p.ETag, VersionID: first(r.header, "X-Amz-Version-Id"), Checksums: p.Checksums, Modified: p.LastModified}, nil
}

// copyParts is Copy for objects above 5 GiB.
func copyParts(ctx context.Context, c *Client, from Source, bucket, key string, o *CopyOptions) (*Written, error) {
	info, err := c.Head(ctx, from.Bucket, from.Key, from.options(o))
	if err != nil {
		return nil, err
	}
	put := PutOptions{Properties: info.Properties, Checksum: o.Checksum}
	put.WebsiteRedirect = "" // never copied
	if o.Replace != nil {
		put.Properties = *o.Replace
	}
	put.Tags = o.Tags
	if !o.ReplaceTags && o.Tags == nil && info.TagCount > 0 {
		if put.Tags, err = c.Tags(ctx, from.Bucket, ObjectID{from.Key, from.VersionID}); err != nil {
			return nil, err
		}
	}
	put.Encryption, put.StorageClass, put.Lock = o.Encryption, o.StorageClass, o.Lock
	id, err := c.CreateUpload(ctx, bucket, key, &put)
	if err != nil {
		return nil, err
	}
	parts, err := copyRanges(ctx, c, from, bucket, key, id, info, o)
	if err == nil {
		var w *Written
		w, err = c.CompleteUpload(ctx, bucket, key, id, parts, &CompleteOptions{Conditions: o.Conditions, Size: info.Size, CustomerKey: o.Encryption.CustomerKey})
		if err == nil {
			w.Modified = time.Time{} // CompleteMultipartUpload does not tell it
			return w, nil
		}
	}
	var e *Error
	if !errors.As(err, &e) || !e.Uncertain {
		cleanup, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		_ = c.AbortUpload(cleanup, bucket, key, id) // the error that is returned matters more
	}
	return nil, err
}

// copyRanges copies a source as the parts of an upload.
func copyRanges(ctx context.Context, c *Client, from Source, bucket, key, id string, info *Info, o *CopyOptions) ([]Part, error) {
	size := max(int64(copyPart), (info.Size+partsMax-1)/partsMax)
	parts := make([]Part, (info.Size+size-1)/size)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	next := make(chan int)
	var wait sync.WaitGroup
	for range min(copyParallel, len(parts)) {
		wait.Go(func() {
			for i := range next {
				begin := int64(i) * size
				p, err := c.UploadPartCopy(ctx, from, bucket, key, id, i+1, &PartOptions{Offset: begin, Length: min(size, info.Size-begin),
					Source: Conditions{IfMatch: info.ETag}, CustomerKey: o.Encryption.CustomerKey, SourceCustomerKey: o.SourceCustomerKey})
				if err != nil {
					cancel(err)
					return
				}
				parts[i] = p
			}
		})
	}
	for i := range parts {
		select {
		case next <- i:
		case <-ctx.Done():
		}
	}
	close(next)
	wait.Wait()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return parts, nil
}

// Rename gives an object another key in its bucket, atomically and without moving content. Conditions and Source apply to
// the objects at both keys. Only ORCAS and directory buckets of AWS can rename. See Move, which ORCAS offers between
// buckets.
func (c *Client) Rename(ctx context.Context, bucket, from, to string, o *CopyOptions) error {
	q, err := moveCall("Rename", "X-Amz-Rename-Source", Source{Bucket: bucket, Key: from}, bucket, to, o)
	if err != nil {
		return err
	}
	q.query = new(query).flag("renameObject").String()
	_, err = c.w.do(ctx, q)
	return cannotMove(err)
}

// Move moves an object to another key or bucket, atomically and without moving content. Metadata, tags and the time of
// modification stay. Only ORCAS has it.
func (c *Client) Move(ctx context.Context, from Source, bucket, key string, o *CopyOptions) (*Written, error) {
	q, err := moveCall("Move", "X-Amz-Move-Source", from, bucket, key, o)
	if err != nil {
		return nil, err
	}
	w, err := c.w.copied(ctx, q, "CopyObjectResult")
	return w, cannotMove(err)
}

// notEmpty is the MD5 of the text "not empty" in Base64. Moves and renames are PUTs without a body. A server that does
// not know them would write an empty object over the target, if Content-MD5 did not contradict that.
const notEmpty = "eu3/pGh9N9QAe72Of88ADQ=="

// moveCall returns the call for a move or a rename. header is the name of the header with the source.
func moveCall(op, header string, from Source, bucket, key string, o *CopyOptions) (*call, error) {
	if o == nil {
		o = &CopyOptions{}
	}
	q, err := objectCall(op, http.MethodPut, bucket, key)
	if err != nil {
		return nil, err
	}
	if from.Bucket == "" || from.Key == "" || from.VersionID != "" {
		return nil, argument(op, bucket, key, "the source must be a bucket and a key without a version")
	}
	token := o.ClientToken
	if token == "" {
		token = strings.ToLower(rand.Text()) // so that a repeated attempt moves nothing that was written in between
	}
	set(q.header, header, sigv4.Escape("/"+from.Bucket+"/"+from.Key))
	set(q.header, "X-Amz-Client-Token", token)
	set(q.header, "Content-Md5", notEmpty)
	o.Conditions.write(q.header, "If-")
	o.Source.write(q.header, header+"-If-")
	return q, nil
}

// cannotMove makes the error of a server that saw only a damaged PUT an ErrNotImplemented.
func cannotMove(err error) error {
	var e *Error
	if errors.As(err, &e) && damagedOnTheWay(e.Code) {
		e.Code, e.Message = "NotImplemented", "the server cannot move objects: it took the request for a PUT of an empty object, and refused it"
	}
	return err
}
