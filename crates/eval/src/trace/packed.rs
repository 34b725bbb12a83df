//! Files as they lie: plain, gzip, zstd or xz, recognised from their first bytes. Decompressors
//! in Rust, which may be slower than those in C, but cannot write where they should not.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;

use lzma_rust2::XzReader;
use ruzstd::decoding::FrameDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::encoding::{CompressionLevel, compress_to_vec};

const BUFFER: usize = 1 << 16;
/// Dictionary of xz, window of zstd: what their highest usual levels need. A file may ask for
/// gigabytes.
const WINDOW_MAX: u64 = 128 << 20;

/// A file, or the standard input for `-`, decompressed.
pub fn open(path: &Path) -> io::Result<Box<dyn BufRead>> {
    if path == Path::new("-") {
        return unpack(Box::new(io::stdin()));
    }
    unpack(Box::new(std::fs::File::open(path)?))
}

/// Decompresses what is compressed.
pub fn unpack(mut source: Box<dyn Read>) -> io::Result<Box<dyn BufRead>> {
    let mut head = Vec::new();
    source.by_ref().take(6).read_to_end(&mut head)?;
    let begins = |magic: &[u8]| head.starts_with(magic);
    if begins(b"BZh") {
        let what = "it is compressed with bzip2, which is not read: decompress it first";
        return Err(io::Error::new(io::ErrorKind::Unsupported, what));
    }
    let is_gzip = begins(&[0x1f, 0x8b]);
    let is_zstd = begins(&[0x28, 0xb5, 0x2f, 0xfd]);
    let is_xz = begins(&[0xfd, b'7', b'z', b'X', b'Z', 0]);
    let whole = BufReader::with_capacity(BUFFER, io::Cursor::new(head).chain(source));
    let unpacked: Box<dyn Read> = if is_gzip {
        Box::new(flate2::bufread::MultiGzDecoder::new(whole))
    } else if is_zstd {
        Box::new(Frames::new(whole))
    } else if is_xz {
        let limit = u32::try_from(WINDOW_MAX >> 10).expect("a constant that fits");
        Box::new(XzReader::new_mem_limit(whole, true, limit))
    } else {
        return Ok(Box::new(whole));
    };
    Ok(Box::new(BufReader::with_capacity(BUFFER, unpacked)))
}

/// All frames of a zstd file: compressors that work in parallel write many.
struct Frames<R> {
    source: R,
    decoder: FrameDecoder,
    within: bool,
}

impl<R: BufRead> Frames<R> {
    fn new(source: R) -> Frames<R> {
        let mut decoder = FrameDecoder::new();
        decoder.set_max_window_size(WINDOW_MAX);
        Frames { source, decoder, within: false }
    }

    /// Begins the next frame. False at the end of the file.
    fn begin(&mut self) -> io::Result<bool> {
        while !self.source.fill_buf()?.is_empty() {
            match self.decoder.reset(&mut self.source) {
                Ok(()) => return Ok(true),
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    io::copy(&mut self.source.by_ref().take(length.into()), &mut io::sink())?;
                }
                Err(error) => return Err(io::Error::other(error.to_string())),
            }
        }
        Ok(false)
    }
}

impl<R: BufRead> Read for Frames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        use ruzstd::decoding::BlockDecodingStrategy::UptoBlocks;
        loop {
            if self.within && self.decoder.can_collect() > 0 {
                return self.decoder.read(buffer);
            }
            if !self.within || self.decoder.is_finished() {
                self.within = self.begin()?;
                if !self.within {
                    return Ok(0);
                }
            }
            let decoded = self.decoder.decode_blocks(&mut self.source, UptoBlocks(1));
            decoded.map_err(|error| io::Error::other(error.to_string()))?;
        }
    }
}

/// Bytes of a frame before compression: enough to compress well, few enough to keep.
const FRAME: usize = 4 << 20;

/// Writes zstd, or plainly.
pub struct Packer {
    out: Box<dyn Write>,
    zstd: bool,
    kept: Vec<u8>,
}

impl Packer {
    pub fn new(out: Box<dyn Write>, zstd: bool) -> Packer {
        Packer { out, zstd, kept: Vec::new() }
    }

    /// To a file, compressed if its name ends in `.zst`, or to the standard output.
    pub fn create(path: Option<&Path>) -> io::Result<Packer> {
        let Some(path) = path else {
            return Ok(Packer::new(Box::new(io::stdout().lock()), false));
        };
        let zstd = path.extension().is_some_and(|extension| extension == "zst");
        Ok(Packer::new(Box::new(std::fs::File::create(path)?), zstd))
    }

    fn flush_kept(&mut self) -> io::Result<()> {
        if self.kept.is_empty() {
            return Ok(());
        }
        if self.zstd {
            let packed = compress_to_vec(&self.kept[..], CompressionLevel::Fastest);
            self.out.write_all(&packed)?;
        } else {
            self.out.write_all(&self.kept)?;
        }
        self.kept.clear();
        Ok(())
    }

    /// Whoever doesn't call it loses the end.
    pub fn finish(mut self) -> io::Result<()> {
        self.flush_kept()?;
        self.out.flush()
    }
}

impl Write for Packer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.kept.extend_from_slice(bytes);
        if self.kept.len() >= FRAME {
            self.flush_kept()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::rc::Rc;

    fn unpacked(packed: Vec<u8>) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        unpack(Box::new(io::Cursor::new(packed)))?.read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    #[derive(Clone, Default)]
    struct Kept(Rc<RefCell<Vec<u8>>>);

    impl Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.borrow_mut().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn zstd(text: &[u8]) -> Vec<u8> {
        let kept = Kept::default();
        let mut packer = Packer::new(Box::new(kept.clone()), true);
        for piece in text.chunks(1000) {
            packer.write_all(piece).unwrap();
        }
        packer.finish().unwrap();
        kept.0.take()
    }

    #[test]
    fn what_was_written_is_read_whatever_the_frames() {
        // More than two frames.
        let mut text = vec![7; FRAME * 2];
        (0..100_000u32).for_each(|at| text.extend_from_slice(at.to_string().as_bytes()));
        let packed = zstd(&text);
        assert!(packed.len() < text.len());
        assert!(unpacked(packed.clone()).unwrap() == text);
        // A frame to skip between two.
        let skip = [&[0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0][..], b"xyz"].concat();
        let more = [&zstd(b"one "), &skip[..], &zstd(b"two")[..]].concat();
        assert_eq!(unpacked(more).unwrap(), b"one two");
        // Torn: an error, no shorter text.
        assert!(unpacked(packed[..packed.len() - 9].to_vec()).is_err());
        assert_eq!(unpacked(b"plain".to_vec()).unwrap(), b"plain");
        assert_eq!(unpacked(Vec::new()).unwrap(), b"");
    }

    #[test]
    fn gzip_of_many_members_and_xz_are_read() {
        let gzip = |text: &[u8]| {
            let mut encoder =
                flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            encoder.write_all(text).unwrap();
            encoder.finish().unwrap()
        };
        assert_eq!(unpacked([gzip(b"one "), gzip(b"two")].concat()).unwrap(), b"one two");
        // `printf one | xz --check=crc32`.
        let xz = "fd377a585a0000016922de360200210116000000742fe5a30100026f6e650000f1866c7a0001\
                  170307600cbc9042990d010000000001595a";
        let bytes = |hex: &str| {
            let digit = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
            (0..hex.len()).step_by(2).map(digit).collect::<Vec<u8>>()
        };
        assert_eq!(unpacked(bytes(xz)).unwrap(), b"one");
        let error = unpacked(b"BZh91AY".to_vec()).unwrap_err();
        assert!(error.to_string().contains("bzip2"), "{error}");
    }
}
