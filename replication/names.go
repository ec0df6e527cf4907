package replication

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/jackc/pgx/v5"
)

// maxNameBytes is the longest identifier that the server does not cut silently
// (NAMEDATALEN - 1).
const maxNameBytes = 63

var slotName = regexp.MustCompile(`^[a-z0-9_]{1,63}$`)

// ValidateSlotName reports a name that cannot be a replication slot's. The
// server would fold or cut some of them silently.
func ValidateSlotName(name string) error {
	if !slotName.MatchString(name) {
		return fmt.Errorf("--slot must be 1 to %d lower-case letters, digits and underscores, got %q", maxNameBytes, name)
	}
	return nil
}

// ValidatePublicationName reports a name that cannot be a publication's.
func ValidatePublicationName(name string) error {
	return validateIdentifier("--publication", name)
}

// validateIdentifier checks a name that will be quoted: the server takes any
// bytes but zero, and cuts what is too long.
func validateIdentifier(flag, name string) error {
	switch {
	case name == "":
		return fmt.Errorf("%s must not be empty", flag)
	case len(name) > maxNameBytes:
		return fmt.Errorf("%s must be at most %d bytes, got %d in %q", flag, maxNameBytes, len(name), name)
	case strings.ContainsRune(name, 0):
		return fmt.Errorf("%s must not hold a zero byte, got %q", flag, name)
	}
	return nil
}

func quoteIdentifier(name string) string { return pgx.Identifier{name}.Sanitize() }

// quoteLiteral returns s as an SQL string literal. The commands of the
// replication protocol know no other kind, and no parameters.
func quoteLiteral(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
