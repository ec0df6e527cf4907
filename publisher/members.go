package publisher

import (
	"bytes"
	"encoding/json"
	"unicode/utf16"
	"unicode/utf8"
)

// isObject reports whether text is a JSON object. Of what the database vouches
// for as JSON only the beginning is looked at.
func isObject(text []byte, vouched bool) bool {
	trimmed := skipBlanks(text)
	return len(trimmed) > 0 && trimmed[0] == '{' && (vouched || json.Valid(text))
}

// members goes through the members of a JSON object, in their order. Of anything
// that is not well-formed it makes something, but it stays within the text.
type members struct {
	rest []byte
	// made gets the strings that hold escapes.
	made *arena
	// name and value are those that next has found: a string as it is, anything
	// else as its JSON text.
	name, value []byte
	inside      bool
}

// next moves to the next member and reports whether there is one.
func (m *members) next() bool {
	m.rest = skipBlanks(m.rest)
	if !m.inside {
		if len(m.rest) == 0 || m.rest[0] != '{' {
			return false
		}
		m.inside = true
		m.rest = skipBlanks(m.rest[1:])
	} else if len(m.rest) > 0 && m.rest[0] == ',' {
		m.rest = skipBlanks(m.rest[1:])
	}
	if len(m.rest) == 0 || m.rest[0] != '"' {
		return false
	}
	m.name = m.string()
	m.rest = skipBlanks(m.rest)
	if len(m.rest) == 0 || m.rest[0] != ':' {
		return false
	}
	m.rest = skipBlanks(m.rest[1:])
	if len(m.rest) > 0 && m.rest[0] == '"' {
		m.value = m.string()
		return true
	}
	n := valueLength(m.rest)
	m.value, m.rest = m.rest[:n:n], m.rest[n:]
	return n > 0
}

// string takes the string at the front.
func (m *members) string() []byte {
	n := stringLength(m.rest)
	text := m.rest[1:max(1, n-1)]
	m.rest = m.rest[n:]
	if bytes.IndexByte(text, '\\') < 0 {
		return text[:len(text):len(text)]
	}
	return m.made.end(appendUnescaped(m.made.begin(len(text)), text))
}

func skipBlanks(text []byte) []byte {
	for len(text) > 0 && (text[0] == ' ' || text[0] == '\n' || text[0] == '\t' || text[0] == '\r') {
		text = text[1:]
	}
	return text
}

// stringLength returns the length of the string at the front, quotes included.
func stringLength(text []byte) int {
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(text)
}

// valueLength returns the length of the value at the front, which is no string.
func valueLength(text []byte) int {
	depth := 0
	for i := 0; i < len(text); i++ {
		switch c := text[i]; c {
		case '"':
			i += stringLength(text[i:]) - 1
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return i
			}
			if depth--; depth == 0 {
				return i + 1
			}
		case ',', ' ', '\n', '\t', '\r':
			if depth == 0 {
				return i
			}
		}
	}
	return len(text)
}

// appendUnescaped appends what a JSON string stands for to b. It needs no more
// room than the string takes.
func appendUnescaped(b, text []byte) []byte {
	for len(text) > 0 {
		c := text[0]
		if c != '\\' || len(text) < 2 {
			b, text = append(b, c), text[1:]
			continue
		}
		c, text = text[1], text[2:]
		switch c {
		case 'b':
			b = append(b, '\b')
		case 'f':
			b = append(b, '\f')
		case 'n':
			b = append(b, '\n')
		case 'r':
			b = append(b, '\r')
		case 't':
			b = append(b, '\t')
		case 'u':
			var r rune
			r, text = codePoint(text)
			b = utf8.AppendRune(b, r)
		default: // quotation mark, slash, backslash
			b = append(b, c)
		}
	}
	return b
}

// codePoint reads what follows \u, and another such escape if the two are a pair
// of surrogates. Half a pair is U+FFFD.
func codePoint(text []byte) (rune, []byte) {
	first, text := hexDigits(text)
	if !utf16.IsSurrogate(first) {
		return first, text
	}
	if len(text) >= 6 && text[0] == '\\' && text[1] == 'u' {
		second, behind := hexDigits(text[2:])
		if r := utf16.DecodeRune(first, second); r != utf8.RuneError {
			return r, behind
		}
	}
	return utf8.RuneError, text
}

// hexDigits reads four hex digits.
func hexDigits(text []byte) (rune, []byte) {
	if len(text) < 4 {
		return utf8.RuneError, nil
	}
	var r rune
	for _, c := range text[:4] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return utf8.RuneError, text[4:]
		}
		r = r<<4 | rune(c)
	}
	return r, text[4:]
}
