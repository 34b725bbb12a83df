//! Replies that are ready, packed so that one send takes them all.
//!
//! Bounded by the requests and bytes in flight: a reply holds its request's permits until it
//! has been sent.

use io::Buf;
use io::sync::Permit;

/// Capacity kept for the next headers: a full queue of ordinary ones. Block status replies
/// may have needed far more.
const HEADS_KEPT: usize = 8 << 10;

/// What a request occupies until its reply is sent: its place, and its payload's bytes.
pub struct Ticket {
    _request: Permit,
    _bytes: Option<Permit>,
}

impl Ticket {
    pub fn new(request: Permit, bytes: Option<Permit>) -> Ticket {
        Ticket { _request: request, _bytes: bytes }
    }
}

#[derive(Default)]
pub struct Outbox {
    /// All replies' headers and small contents, one after the other.
    heads: Vec<u8>,
    /// Data to send, each after that many bytes of `heads`.
    data: Vec<(usize, Buf)>,
    tickets: Vec<Ticket>,
}

/// One send.
pub struct Batch {
    pub pieces: Vec<Buf>,
    pub tickets: Vec<Ticket>,
}

impl Outbox {
    pub fn is_empty(&self) -> bool {
        self.tickets.is_empty()
    }

    /// Adds a reply: `write` appends what comes before its data and gives the data.
    pub fn push(&mut self, ticket: Ticket, write: impl FnOnce(&mut Vec<u8>) -> Vec<Buf>) {
        let data = write(&mut self.heads);
        let at = self.heads.len();
        self.data.extend(data.into_iter().map(|piece| (at, piece)));
        self.tickets.push(ticket);
    }

    /// Takes everything. The headers' buffers stay for the next replies.
    pub fn take(&mut self) -> Batch {
        let heads = Buf::from_slice(&self.heads);
        let mut pieces = Vec::with_capacity(2 * self.data.len() + 1);
        let mut sent = 0;
        for (at, piece) in self.data.drain(..) {
            if at > sent {
                pieces.push(heads.slice(sent..at));
                sent = at;
            }
            pieces.push(piece);
        }
        if self.heads.len() > sent {
            pieces.push(heads.slice(sent..self.heads.len()));
        }
        self.heads.clear();
        self.heads.shrink_to(HEADS_KEPT);
        Batch { pieces, tickets: std::mem::take(&mut self.tickets) }
    }
}
