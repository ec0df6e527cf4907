//go:build linux || darwin

package harness

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"
	"time"
)

// KafkaVersion is the release of Apache Kafka that StartKafka starts.
const KafkaVersion = "4.3.1"

// minJava is the oldest Java that this release runs on.
const minJava = 17

const kafkaPOM = `<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>harness</groupId><artifactId>kafka</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>` + KafkaVersion + `</version></dependency>
    <dependency><groupId>org.apache.logging.log4j</groupId><artifactId>log4j-slf4j-impl</artifactId><version>2.25.4</version></dependency>
  </dependencies>
</project>
`

// loggingFile is the logging configuration beside the jars of a program.
const loggingFile = "log4j2.properties"

const kafkaLogging = `status = error
rootLogger.level = warn
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{ISO8601} %p %m (%c)%n
`

// A kafkaImage is what every broker of this machine is started from.
type kafkaImage struct {
	java string
	jars string // directory of the jars
	warm string // directory of what the first broker left for the others; "" for that first one
}

// kafkaImageFor finds Java and Kafka, and fetches what is missing.
func kafkaImageFor(ctx context.Context, progress io.Writer) (kafkaImage, error) {
	var image kafkaImage
	var err error
	if image.java, err = find(ctx, progress, needJava); err != nil {
		return image, err
	}
	cache, err := CacheDir()
	if err != nil {
		return image, err
	}
	image.jars = filepath.Join(cache, "kafka", KafkaVersion)
	if err := once(image.jars, func(tmp string) error { return fetchKafka(ctx, progress, tmp) }); err != nil {
		return image, fmt.Errorf("fetch Apache Kafka %s: %w", KafkaVersion, err)
	}
	java, err := javaVersion(ctx, image.java)
	if err != nil {
		return image, err
	}
	warm := filepath.Join(cache, "kafka", KafkaVersion+"-java-"+java)
	if err := once(warm, func(tmp string) error { return warmUpKafka(ctx, progress, image, tmp) }); err != nil {
		return image, fmt.Errorf("prepare Apache Kafka %s: %w", KafkaVersion, err)
	}
	image.warm = warm
	return image, nil
}

// javaVersion returns the full version of a Java that is new enough.
func javaVersion(ctx context.Context, java string) (string, error) {
	out, err := exec.CommandContext(ctx, java, "-version").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s -version: %w", java, err)
	}
	version := regexp.MustCompile(`"(\d+)[^"]*"`).FindSubmatch(out)
	if version == nil {
		return "", fmt.Errorf("%s -version says %q", java, out)
	}
	if major, err := strconv.Atoi(string(version[1])); err != nil || major < minJava {
		return "", fmt.Errorf("%s is version %s; Apache Kafka %s needs Java %d or newer in PATH", java, version[0], KafkaVersion, minJava)
	}
	return safeName(string(version[0][1 : len(version[0])-1])), nil
}

// fetchKafka downloads Kafka's jars into dir.
func fetchKafka(ctx context.Context, progress io.Writer, dir string) error {
	begun := time.Now()
	say(progress, "fetching Apache Kafka %s (Maven, 44 MB) ...", KafkaVersion)
	if err := fetchJars(ctx, progress, dir, kafkaPOM); err != nil {
		return err
	}
	say(progress, "fetched Apache Kafka %s in %s", KafkaVersion, took(begun))
	return nil
}

// The files of the warm directory.
const (
	// warmCheckpoint is what formatting leaves in a log directory that is the
	// same for every broker: the features of a new cluster.
	warmCheckpoint = "bootstrap.checkpoint"
	// warmClasses is an archive of the classes that a broker loads. With it a
	// start takes half the time and processor.
	warmClasses = "classes.jsa"
)

// warmUpKafka runs a broker once and keeps in dir what makes all others start
// quickly.
func warmUpKafka(ctx context.Context, progress io.Writer, image kafkaImage, dir string) error {
	begun := time.Now()
	k := &Kafka{image: image, config: KafkaConfig{
		Brokers: 1, Progress: io.Discard,
		JVM: append(defaultJVM(), "-XX:ArchiveClassesAtExit="+filepath.Join(dir, warmClasses)),
	}}
	err := k.start(ctx)
	if err == nil {
		err = copyFile(filepath.Join(k.brokers[0].dir, "data", warmCheckpoint), filepath.Join(dir, warmCheckpoint), 0o644)
	}
	if err == nil {
		_, _, err = k.brokers[0].process.Stop(ctx, syscall.SIGTERM)
	}
	if err := errors.Join(err, k.Close()); err != nil {
		return err
	}
	say(progress, "prepared Apache Kafka %s for quick starts in %s", KafkaVersion, took(begun))
	return nil
}
