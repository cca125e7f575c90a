// Package postform reads the HTML forms of POST uploads, and checks them against their policies. It does not depend on
// requests or stores.
//
// A form is multipart/form-data. Its fields describe the object, and the last one, "file", is the content. A signed
// form has a policy: a JSON document, in base64, with the time at which it expires and conditions on the fields. The
// holder of a form can change every field, so each one must be covered by a condition, except those that contain the
// signature and those that are ignored.
package postform

import (
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"strings"
	"unicode/utf8"

	"orcas/s3/apierr"
)

// Limits of a form.
const (
	// MaxFields is the maximum total size of the names and values of the fields before the file, in bytes, as in S3.
	MaxFields = 20 << 10
	maxCount  = 100 // fields
	// MaxHead is the maximum size of everything before the file: fields, their headers, and the boundaries.
	MaxHead = 64 << 10
	// MaxTail is the maximum size of everything after the file: the last boundary, and fields, which are ignored.
	MaxTail = 64 << 10
)

// The errors of this package, other than those with variable messages.
var (
	errMalformed = apierr.New(400, "MalformedPOSTRequest", "The body of your POST request is not well-formed multipart/form-data.")
	errTooLong   = apierr.New(400, "MaxPostPreDataLengthExceeded", "Your POST request fields preceding the upload file were too large.")
	errNoFile    = apierr.Argument("file", "0", "POST requires exactly one file upload per request.")
)

// Form is a form whose fields have been read, and whose file has not.
type Form struct {
	Fields   []Field // in their order, without the file
	FileName string  // the name of the file, without directories; "" if there is none
	file     *multipart.Part
	parts    *multipart.Reader
	in       *limited
	err      error // returned by every later Read
}

// Field is a field of a form. The name is in lower case.
type Field struct{ Name, Value string }

// limited is a reader that fails after a number of bytes.
type limited struct {
	r    io.Reader
	left int64
	read int64 // bytes read so far
	over error
}

func (l *limited) Read(p []byte) (int, error) {
	if l.left <= 0 {
		return 0, l.over
	}
	n, err := l.r.Read(p[:min(int64(len(p)), l.left)])
	l.left -= int64(n)
	l.read += int64(n)
	if err == io.ErrUnexpectedEOF {
		err = &incomplete{err}
	}
	return n, err
}

// incomplete is an error of the connection. It hides io.ErrUnexpectedEOF from readers that take it for the end of the
// form.
type incomplete struct{ cause error }

func (e *incomplete) Error() string { return "the body is incomplete: " + e.cause.Error() }
func (e *incomplete) Unwrap() error { return e.cause }

// IsForm reports whether the value of a Content-Type header is that of a form.
func IsForm(contentType string) bool {
	kind, _, _ := strings.Cut(contentType, ";")
	return strings.EqualFold(strings.TrimSpace(kind), "multipart/form-data")
}

// Read reads the fields of a form up to its file. Errors that are not from r are of package apierr.
func Read(r io.Reader, contentType string) (*Form, error) {
	_, params, err := mime.ParseMediaType(contentType)
	if err != nil || params["boundary"] == "" {
		return nil, errMalformed
	}
	in := &limited{r: r, left: MaxHead, over: errTooLong}
	f := &Form{in: in, parts: multipart.NewReader(in, params["boundary"])}
	for size := 0; ; {
		part, err := f.parts.NextRawPart()
		switch {
		case err == io.EOF:
			return nil, errNoFile
		case err != nil:
			return nil, formError(err)
		}
		name := strings.ToLower(part.FormName())
		if name == "x-minio-fanout-list" {
			return nil, apierr.Unserved("MinIO's fan-out upload")
		}
		if name == "file" {
			f.file, f.FileName = part, baseName(part)
			in.left = 1<<63 - 1
			return f, nil
		}
		value, err := io.ReadAll(io.LimitReader(part, MaxFields+1))
		if err != nil {
			return nil, formError(err)
		}
		size += len(name) + len(value)
		switch {
		case size > MaxFields || len(f.Fields) == maxCount:
			return nil, errTooLong
		case name == "" || !utf8.Valid(value) || !utf8.ValidString(name):
			return nil, errMalformed
		case f.Has(name):
			return nil, apierr.Argument(name, "", "The form has several fields named '"+name+"'.")
		}
		f.Fields = append(f.Fields, Field{name, string(value)})
	}
}

// formError returns the error for a form that cannot be read. Errors of the connection stay what they are.
func formError(err error) error {
	var own *apierr.Error
	var lost *incomplete
	switch {
	case errors.As(err, &own):
		return own
	case errors.As(err, &lost):
		return lost
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF), strings.HasPrefix(err.Error(), "multipart: "),
		strings.Contains(err.Error(), "malformed MIME header"), errors.Is(err, multipart.ErrMessageTooLarge):
		return errMalformed.Because(err)
	}
	return err
}

// baseName returns the name of an uploaded file without its directories.
func baseName(p *multipart.Part) string {
	_, params, err := mime.ParseMediaType(p.Header.Get("Content-Disposition"))
	if err != nil {
		return ""
	}
	name := params["filename"]
	return name[strings.LastIndexAny(name, `/\`)+1:]
}

// Has reports whether the form has a field, by its lower-case name.
func (f *Form) Has(name string) bool {
	for i := range f.Fields {
		if f.Fields[i].Name == name {
			return true
		}
	}
	return false
}

// Value returns the value of a field by its lower-case name, or "".
func (f *Form) Value(name string) string {
	for i := range f.Fields {
		if f.Fields[i].Name == name {
			return f.Fields[i].Value
		}
	}
	return ""
}

// Expand replaces ${filename} in the key by the name of the file. Policies are checked after that.
func (f *Form) Expand() {
	for i := range f.Fields {
		if f.Fields[i].Name == "key" {
			f.Fields[i].Value = strings.ReplaceAll(f.Fields[i].Value, "${filename}", f.FileName)
		}
	}
}

// Consumed returns the number of bytes of the body that were read. It may include bytes of the file.
func (f *Form) Consumed() int64 { return f.in.read }

// Read reads the content of the file, which ends at the next boundary. At its end, Read reads the rest of the body,
// whose fields are ignored, and returns io.EOF only if that is possible and the rest is not longer than MaxTail. No
// error is io.ErrUnexpectedEOF. After an error, every Read returns the same error.
func (f *Form) Read(p []byte) (int, error) {
	if f.err != nil {
		return 0, f.err
	}
	n, err := f.file.Read(p)
	if err == io.EOF {
		f.err = f.end()
	} else if err != nil {
		f.err = formError(err)
	}
	return n, f.err
}

// end reads the rest of the form.
func (f *Form) end() error {
	f.in.left, f.in.over = MaxTail, errMalformed
	for {
		part, err := f.parts.NextRawPart()
		if err == io.EOF {
			if _, err = io.Copy(io.Discard, f.in); err != nil {
				return formError(err)
			}
			return io.EOF
		}
		if err != nil {
			return formError(err)
		}
		if strings.EqualFold(part.FormName(), "file") {
			return apierr.Argument("file", "2", "POST requires exactly one file upload per request.")
		}
	}
}
