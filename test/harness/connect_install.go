//go:build linux || darwin

package harness

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

// DebeziumVersion is the release of Debezium's PostgreSQL connector that a
// Connect worker has, with the outbox event router.
const DebeziumVersion = "3.6.1.Final"

// connectVersion is the release of Kafka Connect that Debezium 3.6 is built
// for.
const connectVersion = "4.3.0"

const connectPOM = `<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>harness</groupId><artifactId>connect</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies>
    <dependency><groupId>io.debezium</groupId><artifactId>debezium-connector-postgres</artifactId><version>` + DebeziumVersion + `</version></dependency>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>connect-runtime</artifactId><version>` + connectVersion + `</version></dependency>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>connect-json</artifactId><version>` + connectVersion + `</version></dependency>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>connect-transforms</artifactId><version>` + connectVersion + `</version></dependency>
    <dependency><groupId>org.apache.logging.log4j</groupId><artifactId>log4j-slf4j-impl</artifactId><version>2.25.4</version></dependency>
  </dependencies>
</project>
`

// A connectImage is what a worker is started from.
type connectImage struct {
	java string
	jars string // directory of the jars
}

// connectImageFor finds Java and the jars, and fetches what is missing.
func connectImageFor(ctx context.Context, progress io.Writer) (connectImage, error) {
	var image connectImage
	var err error
	if image.java, err = find(ctx, progress, needJava); err != nil {
		return image, err
	}
	if _, err := javaVersion(ctx, image.java); err != nil {
		return image, err
	}
	cache, err := CacheDir()
	if err != nil {
		return image, err
	}
	image.jars = filepath.Join(cache, "debezium", DebeziumVersion)
	if err := once(image.jars, func(tmp string) error { return fetchConnect(ctx, progress, tmp) }); err != nil {
		return image, fmt.Errorf("fetch Debezium %s: %w", DebeziumVersion, err)
	}
	return image, nil
}

// fetchConnect downloads the jars of Kafka Connect and Debezium into dir.
func fetchConnect(ctx context.Context, progress io.Writer, dir string) error {
	begun := time.Now()
	say(progress, "fetching Debezium %s (Maven, 41 MB) ...", DebeziumVersion)
	if err := fetchJars(ctx, progress, dir, connectPOM); err != nil {
		return err
	}
	say(progress, "fetched Debezium %s in %s", DebeziumVersion, took(begun))
	return nil
}

// fetchJars downloads what a project depends on into dir, beside a logging
// configuration for a program made of it.
func fetchJars(ctx context.Context, progress io.Writer, dir, pom string) error {
	maven, err := find(ctx, progress, needMaven)
	if err != nil {
		return err
	}
	file := filepath.Join(dir, "pom.xml")
	if err := os.WriteFile(file, []byte(pom), 0o644); err != nil {
		return err
	}
	if err := run(ctx, dir, nil, maven, "-q", "-B", "-f", file, "dependency:copy-dependencies", "-DoutputDirectory="+dir, "-DincludeScope=runtime"); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, loggingFile), []byte(kafkaLogging), 0o644)
}
