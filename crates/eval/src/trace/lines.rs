//! Cuts a stream into lines, or into records of one length, in a bounded piece of memory.

use std::io::{self, BufRead, Read};

/// A longer line is no request of any form, and is not kept: a file without line ends would fill
/// the memory.
pub const LINE_MAX: usize = 4096;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    Lines,
    /// Bytes of a record.
    Records(usize),
}

#[derive(Debug, PartialEq, Eq)]
pub enum Piece {
    /// It stands in the buffer, without its end.
    Whole,
    /// Longer than [`LINE_MAX`], or the file ends within a record.
    Broken,
    End,
}

/// Reads the next piece into `buffer`.
pub fn next(source: &mut impl BufRead, cut: Cut, buffer: &mut Vec<u8>) -> io::Result<Piece> {
    buffer.clear();
    match cut {
        Cut::Lines => line(source, buffer),
        Cut::Records(len) => {
            source.by_ref().take(len as u64).read_to_end(buffer)?;
            Ok(match buffer.len() {
                0 => Piece::End,
                read if read == len => Piece::Whole,
                _ => Piece::Broken,
            })
        }
    }
}

fn line(source: &mut impl BufRead, buffer: &mut Vec<u8>) -> io::Result<Piece> {
    let mut any = false;
    let mut too_long = false;
    loop {
        let ready = source.fill_buf()?;
        if ready.is_empty() {
            break;
        }
        any = true;
        let end = ready.iter().position(|&byte| byte == b'\n');
        let part = &ready[..end.unwrap_or(ready.len())];
        too_long |= buffer.len() + part.len() > LINE_MAX;
        if !too_long {
            buffer.extend_from_slice(part);
        }
        let used = end.map_or(ready.len(), |end| end + 1);
        source.consume(used);
        if end.is_some() {
            break;
        }
    }
    if buffer.last() == Some(&b'\r') {
        buffer.pop();
    }
    Ok(match (any, too_long) {
        (false, _) => Piece::End,
        (true, true) => Piece::Broken,
        (true, false) => Piece::Whole,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(mut source: impl BufRead, cut: Cut) -> Vec<Option<Vec<u8>>> {
        let mut buffer = Vec::new();
        let mut pieces = Vec::new();
        loop {
            match next(&mut source, cut, &mut buffer).unwrap() {
                Piece::Whole => pieces.push(Some(buffer.clone())),
                Piece::Broken => pieces.push(None),
                Piece::End => return pieces,
            }
        }
    }

    #[test]
    fn lines_end_anyhow_and_long_ones_are_told_and_not_kept() {
        let long = "x".repeat(LINE_MAX + 1);
        let text = format!("a\r\n\n{long}\nb");
        let wanted = [Some(b"a".to_vec()), Some(Vec::new()), None, Some(b"b".to_vec())];
        // Lines that end within a buffer and beyond it.
        for capacity in [1, 3, 1 << 16] {
            let source = io::BufReader::with_capacity(capacity, text.as_bytes());
            assert_eq!(pieces(source, Cut::Lines), wanted);
        }
    }

    #[test]
    fn a_torn_record_at_the_end_is_told() {
        let source = io::BufReader::with_capacity(3, &b"abcdefg"[..]);
        let wanted = [Some(b"abc".to_vec()), Some(b"def".to_vec()), None];
        assert_eq!(pieces(source, Cut::Records(3)), wanted);
    }
}
