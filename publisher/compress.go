package publisher

import (
	"fmt"
	"io"

	"github.com/IBM/sarama"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy/xerial"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// zstdWindowBytes is as much as a batch holds; the library's own window is many
// times as large, and is memory of each encoder.
const zstdWindowBytes = maxBatchBytes

// compressor compresses batches, with state that it keeps. The zero value is
// ready for use by one goroutine at a time.
type compressor struct {
	gzip *gzip.Writer
	lz4  *lz4.Writer
	zstd *zstd.Encoder
}

// append appends src to dst in compressed form, each codec in the framing that
// Kafka has for it.
func (c *compressor) append(dst, src []byte, codec sarama.CompressionCodec) ([]byte, error) {
	switch codec {
	case sarama.CompressionGZIP:
		return c.appendGzip(dst, src)
	case sarama.CompressionSnappy:
		return append(dst, xerial.Encode(nil, src)...), nil
	case sarama.CompressionLZ4:
		return c.appendLZ4(dst, src)
	case sarama.CompressionZSTD:
		return c.appendZstd(dst, src)
	}
	return nil, fmt.Errorf("compress: unknown codec %d", codec)
}

// appender takes what is written behind the bytes that are there.
type appender struct{ bytes []byte }

func (a *appender) Write(b []byte) (int, error) {
	a.bytes = append(a.bytes, b...)
	return len(b), nil
}

// writeAll writes what there is to compress.
func writeAll(w io.WriteCloser, src []byte) error {
	if _, err := w.Write(src); err != nil {
		return err
	}
	return w.Close()
}

func (c *compressor) appendGzip(dst, src []byte) ([]byte, error) {
	out := &appender{dst}
	if c.gzip == nil {
		c.gzip = gzip.NewWriter(out)
	} else {
		c.gzip.Reset(out)
	}
	if err := writeAll(c.gzip, src); err != nil {
		return nil, fmt.Errorf("compress with gzip: %w", err)
	}
	return out.bytes, nil
}

func (c *compressor) appendLZ4(dst, src []byte) ([]byte, error) {
	out := &appender{dst}
	if c.lz4 == nil {
		c.lz4 = lz4.NewWriter(out)
		if err := c.lz4.Apply(lz4.BlockSizeOption(lz4.Block64Kb)); err != nil {
			return nil, fmt.Errorf("compress with lz4: %w", err)
		}
	} else {
		c.lz4.Reset(out)
	}
	if err := writeAll(c.lz4, src); err != nil {
		return nil, fmt.Errorf("compress with lz4: %w", err)
	}
	return out.bytes, nil
}

func (c *compressor) appendZstd(dst, src []byte) ([]byte, error) {
	if c.zstd == nil {
		var err error
		if c.zstd, err = zstd.NewWriter(nil, zstd.WithZeroFrames(true), zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(zstdWindowBytes)); err != nil {
			return nil, fmt.Errorf("compress with zstd: %w", err)
		}
	}
	return c.zstd.EncodeAll(src, dst), nil
}
