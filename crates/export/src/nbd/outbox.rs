//! Replies that are ready, packed so that one send takes many of them.
//!
//! Bounded by the window of the connection: a reply holds its request's ticket until it has been
//! sent.

use std::collections::VecDeque;

use io::Buf;

use super::window::Ticket;

/// Capacity kept for the next headers: a full queue of ordinary ones. Block status replies
/// may have needed far more.
const HEADS_KEPT: usize = 8 << 10;

/// Replies that are sent at once: so many bytes, and what the last of them has beyond.
#[derive(Default)]
struct Pack {
    /// All replies' headers and small contents, one after the other.
    heads: Vec<u8>,
    /// Data to send, each after that many bytes of `heads`.
    data: Vec<(usize, Buf)>,
    data_bytes: usize,
    tickets: Vec<Ticket>,
}

impl Pack {
    fn is_full(&self, bytes: usize) -> bool {
        self.heads.len() + self.data_bytes >= bytes
    }
}

#[derive(Default)]
pub struct Outbox {
    /// All but the last are full.
    packs: VecDeque<Pack>,
    /// Memory for the next headers.
    spare: Vec<u8>,
}

/// One send.
pub struct Batch {
    pub pieces: Vec<Buf>,
    pub tickets: Vec<Ticket>,
}

impl Outbox {
    /// Adds a reply: `write` appends what comes before its data and gives the data. What is sent at
    /// once has `batch` bytes.
    pub fn push(
        &mut self,
        batch: usize,
        ticket: Ticket,
        write: impl FnOnce(&mut Vec<u8>) -> Vec<Buf>,
    ) {
        let mut pack = match self.packs.pop_back() {
            Some(pack) if !pack.is_full(batch) => pack,
            full => {
                self.packs.extend(full);
                Pack { heads: std::mem::take(&mut self.spare), ..Pack::default() }
            }
        };
        let data = write(&mut pack.heads);
        let at = pack.heads.len();
        pack.data_bytes += data.iter().map(|piece| piece.len()).sum::<usize>();
        pack.data.extend(data.into_iter().map(|piece| (at, piece)));
        pack.tickets.push(ticket);
        self.packs.push_back(pack);
    }

    /// Takes what is to be sent next. The headers' memory stays for the next replies.
    pub fn take(&mut self) -> Option<Batch> {
        let Pack { heads: mut bytes, data, tickets, .. } = self.packs.pop_front()?;
        let heads = Buf::from_slice(&bytes);
        let mut pieces = Vec::with_capacity(2 * data.len() + 1);
        let mut sent = 0;
        for (at, piece) in data {
            if at > sent {
                pieces.push(heads.slice(sent..at));
                sent = at;
            }
            pieces.push(piece);
        }
        if heads.len() > sent {
            pieces.push(heads.slice(sent..heads.len()));
        }
        bytes.clear();
        bytes.shrink_to(HEADS_KEPT);
        self.spare = bytes;
        Some(Batch { pieces, tickets })
    }
}
