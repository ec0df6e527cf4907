package decoder

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"testing"
)

func TestPositionText(t *testing.T) {
	for _, tt := range []struct {
		name     string
		position Position
		text     string
	}{
		{"zero", Position{}, "0000000000000000-00000000-0000000000000000"},
		{
			"an event of today",
			Position{CommitLSN: 0x16_b374d848, Index: 10, CommitTime: 1767323045678901},
			"00000016b374d848-0000000a-0006475ef6574f35",
		},
		{
			"largest",
			Position{CommitLSN: math.MaxUint64, Index: math.MaxUint32, CommitTime: math.MaxInt64},
			"ffffffffffffffff-ffffffff-7fffffffffffffff",
		},
		{"before 1970", Position{CommitLSN: 1, CommitTime: -1}, "0000000000000001-00000000-ffffffffffffffff"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.position.String(); got != tt.text {
				t.Errorf("String: got %s, want %s", got, tt.text)
			}
			if got := string(tt.position.Append([]byte("at "))); got != "at "+tt.text {
				t.Errorf("Append: got %s, want at %s", got, tt.text)
			}
			got, err := ParsePosition(tt.text)
			if err != nil || got != tt.position {
				t.Errorf("ParsePosition: got %+v and %v, want %+v", got, err, tt.position)
			}
			if got, want := tt.position.IsZero(), tt.name == "zero"; got != want {
				t.Errorf("IsZero: got %t, want %t", got, want)
			}
		})
	}
}

func TestParsePositionRefusesOtherText(t *testing.T) {
	const good = "00000016b374d848-0000000a-0006475ef6574f35"
	for _, tt := range []struct{ name, text string }{
		{"empty", ""},
		{"one digit short", good[1:]},
		{"one digit long", good + "0"},
		{"line end", good + "\n"},
		{"first hyphen missing", strings.Replace(good, "-", "0", 1)},
		{"second hyphen missing", good[:25] + "0" + good[26:]},
		{"hyphen at the wrong place", "0000001-b374d848-0000000a-0006475ef6574f35"},
		{"upper case", strings.ToUpper(good)},
		{"sign", "+0000016b374d848-0000000a-0006475ef6574f35"},
		{"prefix", "0x000016b374d848-0000000a-0006475ef6574f35"},
		{"underscore", "0000_016b374d848-0000000a-0006475ef6574f35"},
		{"bad digit in the LSN", "g0000016b374d848-0000000a-0006475ef6574f35"},
		{"bad digit in the index", "00000016b374d848-0000000g-0006475ef6574f35"},
		{"bad digit in the commit time", "00000016b374d848-0000000a-0006475ef6574f3g"},
		{"LSN as PostgreSQL writes it", "16/B374D848"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ParsePosition(tt.text)
			if err == nil || !got.IsZero() {
				t.Errorf("got %+v and %v, want an error", got, err)
			}
			if err != nil && !strings.HasSuffix(err.Error(), " is not a position") {
				t.Errorf("got error %q, want one that says it is not a position", err)
			}
		})
	}
}

func TestPositionOrder(t *testing.T) {
	ascending := []Position{
		{},
		{Index: 1},
		{CommitLSN: 1},
		{CommitLSN: 1, Index: 9},
		{CommitLSN: 1, Index: 10},
		{CommitLSN: 1, Index: math.MaxUint32},
		{CommitLSN: 0x10},
		{CommitLSN: 0xffffffff, Index: 2},
		{CommitLSN: 1 << 32, Index: 1},
		{CommitLSN: math.MaxUint64},
	}
	for i, p := range ascending {
		for j, q := range ascending {
			want := cmp.Compare(i, j)
			if got := p.Compare(q); got != want {
				t.Errorf("%s against %s: got %d, want %d", p, q, got, want)
			}
			if got := strings.Compare(p.String(), q.String()); got != want {
				t.Errorf("text of %s against %s: got %d, want %d", p, q, got, want)
			}
		}
	}
	shuffled := slices.Clone(ascending)
	slices.Reverse(shuffled)
	slices.SortFunc(shuffled, Position.Compare)
	if !slices.Equal(shuffled, ascending) {
		t.Errorf("sorted: got %v, want %v", shuffled, ascending)
	}
}

func TestPositionOrderIgnoresCommitTime(t *testing.T) {
	p := Position{CommitLSN: 5, Index: 1, CommitTime: 9}
	q := Position{CommitLSN: 5, Index: 1, CommitTime: 3}
	if got := p.Compare(q); got != 0 {
		t.Errorf("got %d, want 0", got)
	}
}

func FuzzParsePosition(f *testing.F) {
	f.Add("00000016b374d848-0000000a-0006475ef6574f35")
	f.Add("00000016B374D848-0000000a-0006475ef6574f35")
	f.Fuzz(func(t *testing.T, text string) {
		p, err := ParsePosition(text)
		if err == nil && p.String() != text {
			t.Errorf("%q was read as %s", text, p)
		}
	})
}
