//go:build linux || darwin

package integration

import (
	"crypto/md5"
	"encoding/hex"
	"fmt"
	"sync"
)

// All about a row of a torture follows from its number, so nothing has to be
// remembered to judge it: mix(number, of) is as good as random.
func mix(number int64, of uint64) uint64 {
	z := uint64(number)*0x9e3779b97f4a7c15 + of*0xbf58476d1ce4e5b9
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// share is mix as a number from 0 to below 1.
func share(number int64, of uint64) float64 { return float64(mix(number, of)>>11) / (1 << 53) }

// What is chosen by mix.
const (
	mixClass uint64 = iota
	mixSize
	mixType
	mixHeat
	mixAggregate
	mixPadding
)

// payloadSizes are how many of a million payloads are between so many bytes.
var payloadSizes = []struct {
	million  float64
	from, to int
}{
	{800_000, 20, 400}, {180_000, 400, 4_000}, {19_200, 4_000, 40_000}, {800, 40_000, 900_000},
}

// payloadSize is how many bytes the payload of a row has, about.
func payloadSize(number int64) int {
	class := share(number, mixClass) * 1e6
	for _, s := range payloadSizes {
		if class < s.million {
			return s.from + int(share(number, mixSize)*float64(s.to-s.from))
		}
		class -= s.million
	}
	return payloadSizes[0].from
}

var paddings = sync.OnceValue(func() string { return padding(2 << 20) })

// torturePayload is the payload of a row, in the form that jsonb gives it.
func torturePayload(number int64) string {
	text := fmt.Sprintf(`{"number": %d, "padding": "`, number)
	padding := payloadSize(number) - len(text) - len(`"}`)
	if padding <= 0 {
		return fmt.Sprintf(`{"number": %d}`, number)
	}
	from := int(share(number, mixPadding) * (1 << 20))
	return text + paddings()[from:from+padding] + `"}`
}

// tortureSum is the MD5 of the payload of the row with an id.
func tortureSum(id string) (string, bool) {
	sum := md5.Sum([]byte(torturePayload(numberOf(id))))
	return hex.EncodeToString(sum[:]), true
}

// tortureTypes are the aggregate types with the partitions of their topics, and
// how many of a hundred rows are of each.
var tortureTypes = []struct {
	name                string
	partitions, percent int
}{
	{"single", 1, 25}, {"few", 3, 30}, {"many", 24, 25}, {"grown", 2, 15}, {"remade", 2, 5},
}

// tortureRow returns the row with a number: half of all are of four hot
// aggregates, a fifth of cold ones.
func tortureRow(number int64) row {
	r := row{number: number, payload: torturePayload(number)}
	percent := share(number, mixType) * 100
	for _, t := range tortureTypes {
		r.aggregateType = t.name
		if percent -= float64(t.percent); percent < 0 {
			break
		}
	}
	heat, of := share(number, mixHeat), uint64(20_000)
	switch {
	case heat < 0.5:
		of = 4
	case heat < 0.8:
		of = 200
	}
	r.aggregateID = fmt.Sprintf("a%d-%d", of, mix(number, mixAggregate)%of)
	return r
}

// rows takes the next n rows.
func (o *outbox) tortureRows(n int) (rows []row, numbers []int64) {
	first := o.ledger.take(n)
	for i := range int64(n) {
		rows, numbers = append(rows, tortureRow(first+i)), append(numbers, first+i)
	}
	return rows, numbers
}
