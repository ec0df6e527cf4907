package publisher

import (
	"bytes"
	"encoding/json"
	"testing"
)

// membersByLibrary is members as the standard library has it.
func membersByLibrary(t *testing.T, text []byte) (names, values []string) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(text))
	if _, err := d.Token(); err != nil {
		t.Fatal(err)
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			t.Fatal(err)
		}
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			t.Fatal(err)
		}
		value := string(raw)
		if raw[0] == '"' {
			if err := json.Unmarshal(raw, &value); err != nil {
				t.Fatal(err)
			}
		}
		names, values = append(names, name.(string)), append(values, value)
	}
	return names, values
}

// FuzzMembers compares with the library what is a JSON object, and has anything
// else do no harm.
func FuzzMembers(f *testing.F) {
	for _, text := range []string{
		`{}`, ` { } `, `{"a":"b"}`, `{"a": 1.10, "b": [1, {"c": "]}"}], "d": null, "e": true}`, "{\n\t\"a\" :\r{ } }",
		`{"\u00e9\n\"\\\/\b\f\r\t": "\ud83d\ude00 \ud83d \ude00\ud83d\ud83d\ude00", "": ""}`, `{"a":"\u0000", "a": "twice"}`,
		`[]`, `1`, `"{}"`, ``, `{`, `{"`, `{"a`, `{"a"`, `{"a":`, `{"a":"`, `{"a":[`, `{"a":"\`, `{"a":"\u12`, `{"a":1]`, `{"a":1}{`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var made arena
		var names, values []string
		for m := (members{rest: text, made: &made}); m.next(); {
			names, values = append(names, string(m.name)), append(values, string(m.value))
		}
		if isObject(text, false) != (json.Valid(text) && bytes.HasPrefix(bytes.TrimLeft(text, " \n\t\r"), []byte("{"))) {
			t.Fatalf("%q: an object is %t", text, isObject(text, false))
		}
		if !isObject(text, false) || !bytes.Equal(text, bytes.ToValidUTF8(text, nil)) {
			return
		}
		wantNames, wantValues := membersByLibrary(t, text)
		if len(names) != len(wantNames) {
			t.Fatalf("%q: got %q, want %q", text, names, wantNames)
		}
		for i := range names {
			if names[i] != wantNames[i] || values[i] != wantValues[i] {
				t.Errorf("%q: got %q: %q, want %q: %q", text, names[i], values[i], wantNames[i], wantValues[i])
			}
		}
	})
}
