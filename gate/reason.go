package gate

// Reason is why a request was refused by a rule of the server, and not because of what it asks for. It is "" for every
// other request, successful or not.
type Reason string

// The reasons.
const (
	Authentication Reason = "authentication" // the sender is unknown, or the signature is wrong
	Authorization  Reason = "authorization"  // the sender has no permission
	Rate           Reason = "rate"           // the sender has exceeded a rate or a bandwidth
	InFlight       Reason = "in_flight"      // too many requests are in progress, or too many writes are waiting
	Memory         Reason = "memory"         // all memory for uploads is in use
	Connections    Reason = "connections"    // all connections are in use
	FullDrive      Reason = "full_drive"     // the content does not fit above the reserve
	ReadOnly       Reason = "read_only"      // the server accepts no writes
)

// Reasons returns all reasons.
func Reasons() []Reason {
	return []Reason{Authentication, Authorization, Rate, InFlight, Memory, Connections, FullDrive, ReadOnly}
}

// codeReasons are the reasons that follow from the error code that a client sees. A SlowDown has other reasons too, so
// the code that refuses the request sets Event.Reason itself in these cases.
var codeReasons = map[string]Reason{
	"SignatureDoesNotMatch": Authentication, "InvalidAccessKeyId": Authentication, "InvalidClientTokenId": Authentication,
	"RequestTimeTooSkewed": Authentication, "ExpiredToken": Authentication, "InvalidToken": Authentication,
	"MissingAuthenticationToken": Authentication, "AccessDenied": Authorization, "AccessForbidden": Authorization,
	"SlowDown": InFlight, "Throttling": Authentication, "InsufficientStorage": FullDrive, "ServiceUnavailable": ReadOnly,
}

// ReasonOf returns the reason for an error code that a client sees, or "" if it has none.
func ReasonOf(code string) Reason { return codeReasons[code] }
