package perf

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// Records generates JSON documents like those that programs store: orders, with numbers, names, times and random
// tokens. The same seed and number always give the same document.
type Records struct {
	Seed uint64
	Size int // exact size of each document, in bytes
}

var (
	recordFirst   = []string{"Ada", "Björn", "Chiara", "Dmitri", "Elif", "Fatima", "Grace", "Hiroshi", "Ines", "João", "Kwame", "Linnea", "Mateo", "Nadia", "Omar", "Priya"}
	recordLast    = []string{"Andersson", "Bianchi", "Castillo", "Dubois", "Eriksen", "Fischer", "García", "Haddad", "Ivanov", "Jansen", "Kowalski", "Lindqvist", "Müller", "Nakamura", "Okafor", "Petrov"}
	recordStreet  = []string{"Harbour Road", "Mill Lane", "Station Street", "Church Hill", "Market Square", "Kings Way", "Garden Row", "North Quay"}
	recordCity    = []string{"Bergen", "Coimbra", "Delft", "Freiburg", "Gdansk", "Lund", "Nantes", "Porto", "Turku", "Uppsala", "Verona", "York"}
	recordWords   = []string{"adjustable", "aluminium", "battery", "black", "bottle", "cable", "charger", "cotton", "desk", "filter", "glass", "headlamp", "insulated", "jacket", "kettle", "lamp", "leather", "merino", "notebook", "organic", "pack", "portable", "rain", "recycled", "set", "shelf", "steel", "tent", "travel", "wireless", "wool", "zip"}
	recordStates  = []string{"created", "paid", "packed", "shipped", "delivered", "returned", "cancelled"}
	recordCarrier = []string{"DHL", "PostNord", "UPS", "GLS", "DPD"}
)

// Record returns the document with the given number.
func (r Records) Record(number uint64) []byte {
	g := rand.New(rand.NewPCG(r.Seed, number))
	pick := func(list []string) string { return list[g.IntN(len(list))] }
	at := time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(g.Int64N(int64(365 * 24 * time.Hour))))
	stamp := func() string {
		at = at.Add(time.Duration(g.Int64N(int64(20 * time.Hour))))
		return at.Format("2006-01-02T15:04:05.000Z")
	}
	var b strings.Builder
	first, last := pick(recordFirst), pick(recordLast)
	fmt.Fprintf(&b, `{"id":"%016x%016x","version":%d,"created_at":"%s","customer":{"id":%d,"name":"%s %s","email":"%s.%s%d@example.com","phone":"+%d","verified":%t,"segment":"%c"},`,
		g.Uint64(), g.Uint64(), 1+g.IntN(40), stamp(), g.IntN(9_000_000), first, last, strings.ToLower(first), strings.ToLower(last), g.IntN(1000), 30_000_000_000+g.Int64N(10_000_000_000), g.IntN(3) > 0, 'A'+rune(g.IntN(6)))
	fmt.Fprintf(&b, `"shipping_address":{"street":"%s %d","postal_code":"%05d","city":"%s","country":"%c%c","coordinates":[%.6f,%.6f]},"currency":"EUR","items":[`,
		pick(recordStreet), 1+g.IntN(200), g.IntN(100_000), pick(recordCity), 'A'+rune(g.IntN(26)), 'A'+rune(g.IntN(26)), 36+g.Float64()*30, g.Float64()*30-10)
	for i := 0; b.Len() < r.Size*6/10; i++ {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"sku":"%c%c-%06d","title":"%s %s %s","quantity":%d,"unit_price":%d.%02d,"tax_rate":%.2f,"discount":null,"warehouse":"wh-%02d","gift":%t}`,
			'A'+rune(g.IntN(26)), 'A'+rune(g.IntN(26)), g.IntN(1_000_000), pick(recordWords), pick(recordWords), pick(recordWords), 1+g.IntN(5), g.IntN(400), g.IntN(100), []float64{0.07, 0.19, 0.21, 0.25}[g.IntN(4)], g.IntN(24), g.IntN(8) == 0)
	}
	b.WriteString(`],"events":[`)
	for i := 0; b.Len() < r.Size*9/10; i++ {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"at":"%s","state":"%s","actor":"svc-%s-%d","carrier":"%s","trace_id":"%016x"}`,
			stamp(), pick(recordStates), []string{"checkout", "billing", "fulfilment"}[g.IntN(3)], g.IntN(16), pick(recordCarrier), g.Uint64())
	}
	b.WriteString(`],"note":"`)
	for b.Len() < r.Size-2 {
		b.WriteString(pick(recordWords))
		b.WriteByte(' ')
	}
	return append([]byte(b.String()[:r.Size-2]), '"', '}')
}
