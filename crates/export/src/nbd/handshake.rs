//! Options: from the greeting to the choice of an export. No I/O.

use super::proto::options::{
    self, ClientFlags, ClientOption, ContextRequest, Header, InfoRequest, ReplyKind, info,
    transmission,
};
use super::proto::request::Terms;
use super::proto::{CONTEXT_ID, CONTEXT_NAME, ProtocolError};
use crate::limits::{OPTIONS_MAX, OPTIONS_PER_EXPORT, REQUEST_BYTES_MAX};
use crate::volume::{Exports, Volume};

/// What both sides agreed on.
pub struct Agreement<V> {
    pub volume: V,
    pub terms: Terms,
}

/// What to do when the replies to an option are sent.
pub enum Step<V> {
    NextOption,
    Close,
    StartTls,
    Transmit(Agreement<V>),
}

/// Whether the connection is encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encryption {
    /// And will not be.
    NotOffered,
    /// It has to be before anything is told.
    Awaited,
    On,
}

pub struct Handshake<X> {
    exports: X,
    encryption: Encryption,
    client: ClientFlags,
    shutting_down: bool,
    options: u32,
    structured: bool,
    /// The export whose `base:allocation` the client selected. Void for any other export.
    context_of: Option<String>,
}

impl<X: Exports> Handshake<X> {
    pub fn new(exports: X, client: ClientFlags, encryption: Encryption) -> Handshake<X> {
        Handshake {
            exports,
            encryption,
            client,
            shutting_down: false,
            options: 0,
            structured: false,
            context_of: None,
        }
    }

    /// From now on the only option that works is to leave.
    pub fn shut_down(&mut self) {
        self.shutting_down = true;
    }

    /// Takes one option and appends the replies to it to `out`.
    pub fn option(
        &mut self,
        header: Header,
        data: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Step<X::Volume>, ProtocolError> {
        self.options += 1;
        if self.options > OPTIONS_MAX && self.options > self.options_max() {
            return Err(ProtocolError::TooManyOptions);
        }
        if !self.client.fixed && header.code != options::EXPORT_NAME {
            return Err(ProtocolError::NotFixed(header.code));
        }
        let mut replies = Replies { out, code: header.code };
        match options::parse(header.code, data) {
            _ if header.code == options::EXPORT_NAME && self.encryption == Encryption::Awaited => {
                Err(ProtocolError::TlsRequired)
            }
            ClientOption::ExportName(name) => self.export_name(name, replies.out),
            // Only EXPORT_NAME's reply has no place for an error.
            ClientOption::Malformed if header.code == options::EXPORT_NAME => {
                Err(ProtocolError::NoSuchExport)
            }
            option => Ok(self.answer(option, &mut replies)),
        }
    }

    /// Exports come and go, so it is looked at when it matters.
    fn options_max(&self) -> u32 {
        let further = self.exports.count().saturating_sub(1);
        let further = u32::try_from(further).unwrap_or(u32::MAX);
        OPTIONS_MAX.saturating_add(further.saturating_mul(OPTIONS_PER_EXPORT))
    }

    fn answer(&mut self, option: ClientOption<'_>, to: &mut Replies<'_>) -> Step<X::Volume> {
        match option {
            ClientOption::Abort => {
                to.ack();
                return Step::Close;
            }
            ClientOption::StartTls => return self.start_tls(to),
            ClientOption::Malformed if to.code == options::START_TLS => {
                to.error(ReplyKind::Invalid, "malformed option");
            }
            _ if self.encryption == Encryption::Awaited => {
                to.error(ReplyKind::TlsRequired, "use TLS; nothing is told in clear text");
            }
            _ if self.shutting_down => to.error(ReplyKind::Shutdown, "the server is stopping"),
            ClientOption::Go(request) => return self.go(&request, to),
            ClientOption::Info(request) => drop(self.info(&request, to)),
            ClientOption::List => self.list(to),
            ClientOption::StructuredReply => {
                self.structured = true;
                to.ack();
            }
            ClientOption::ListMetaContext(request) => self.list_contexts(&request, to),
            ClientOption::SetMetaContext(request) => self.set_contexts(&request, to),
            ClientOption::Malformed => to.error(ReplyKind::Invalid, "malformed option"),
            ClientOption::Unknown | ClientOption::ExportName(_) => {
                to.error(ReplyKind::Unsupported, "unknown option");
            }
        }
        Step::NextOption
    }

    fn start_tls(&mut self, to: &mut Replies<'_>) -> Step<X::Volume> {
        match self.encryption {
            Encryption::NotOffered => to.error(ReplyKind::Policy, "TLS is not offered"),
            Encryption::On => to.error(ReplyKind::Invalid, "TLS is in use already"),
            Encryption::Awaited => {
                self.encryption = Encryption::On;
                to.ack();
                return Step::StartTls;
            }
        }
        Step::NextOption
    }

    fn export_name(
        &mut self,
        name: &str,
        out: &mut Vec<u8>,
    ) -> Result<Step<X::Volume>, ProtocolError> {
        let found = if self.shutting_down { None } else { self.agree(&self.resolve(name)) };
        let agreement = found.ok_or(ProtocolError::NoSuchExport)?;
        let flags = transmission_flags(&agreement.terms);
        options::export_name_reply(out, agreement.terms.size, flags, self.client.no_zeroes);
        Ok(Step::Transmit(agreement))
    }

    fn go(&self, request: &InfoRequest<'_>, to: &mut Replies<'_>) -> Step<X::Volume> {
        self.info(request, to).map_or(Step::NextOption, Step::Transmit)
    }

    fn info(
        &self,
        request: &InfoRequest<'_>,
        to: &mut Replies<'_>,
    ) -> Option<Agreement<X::Volume>> {
        let name = self.resolve(request.name);
        let Some(agreement) = self.agree(&name) else {
            to.error(ReplyKind::UnknownExport, "there is no such export");
            return None;
        };
        let terms = &agreement.terms;
        let flags = transmission_flags(terms).to_be_bytes();
        to.info(info::EXPORT, &[&terms.size.to_be_bytes(), &flags]);
        // Unasked for, too: a client that understands it can only gain.
        let [min, preferred, max] =
            [terms.blocks.min, terms.blocks.preferred, terms.blocks.max].map(u32::to_be_bytes);
        to.info(info::BLOCK_SIZE, &[&min, &preferred, &max]);
        if request.items.contains(&info::NAME) {
            to.info(info::NAME, &[name.as_bytes()]);
        }
        if request.items.contains(&info::DESCRIPTION) {
            let description = self.description(&name);
            to.info(info::DESCRIPTION, &[description.as_bytes()]);
        }
        to.ack();
        Some(agreement)
    }

    fn list(&self, to: &mut Replies<'_>) {
        for listing in self.exports.list() {
            let len = (listing.name.len() as u32).to_be_bytes();
            let name = listing.name.as_bytes();
            to.send(ReplyKind::Server, &[&len, name, listing.description.as_bytes()]);
        }
        to.ack();
    }

    fn list_contexts(&self, request: &ContextRequest<'_>, to: &mut Replies<'_>) {
        if self.exports.open(&self.resolve(request.name)).is_none() {
            return to.error(ReplyKind::UnknownExport, "there is no such export");
        }
        let matches = |query: &&str| *query == "base:" || *query == CONTEXT_NAME;
        if request.queries.is_empty() || request.queries.iter().any(matches) {
            to.context(0);
        }
        to.ack();
    }

    fn set_contexts(&mut self, request: &ContextRequest<'_>, to: &mut Replies<'_>) {
        self.context_of = None;
        if !self.structured {
            return to.error(ReplyKind::Invalid, "needs structured replies");
        }
        let name = self.resolve(request.name);
        if self.exports.open(&name).is_none() {
            return to.error(ReplyKind::UnknownExport, "there is no such export");
        }
        if request.queries.contains(&CONTEXT_NAME) {
            self.context_of = Some(name);
            to.context(CONTEXT_ID);
        }
        to.ack();
    }

    /// The empty name means the only export, if there is only one.
    fn resolve(&self, name: &str) -> String {
        if !name.is_empty() {
            return name.to_owned();
        }
        self.exports.only().unwrap_or_default()
    }

    fn description(&self, name: &str) -> String {
        self.exports.describe(name).unwrap_or_default()
    }

    fn agree(&self, name: &str) -> Option<Agreement<X::Volume>> {
        let volume = self.exports.open(name)?;
        let mut blocks = volume.block_sizes();
        // Longer ones might never find room among the bytes in flight.
        blocks.max = blocks.max.min(REQUEST_BYTES_MAX);
        let terms = Terms {
            size: volume.size(),
            read_only: volume.read_only(),
            blocks,
            structured: self.structured,
            block_status: self.context_of.as_deref() == Some(name),
        };
        Some(Agreement { volume, terms })
    }
}

fn transmission_flags(terms: &Terms) -> u16 {
    use transmission::*;
    // Flushes cover every completed write of the volume, whichever connection it came by.
    let mut flags = HAS_FLAGS | SEND_FLUSH | SEND_FUA | CAN_MULTI_CONN;
    if terms.read_only {
        flags |= READ_ONLY;
    } else {
        flags |= SEND_TRIM | SEND_WRITE_ZEROES | SEND_FAST_ZERO;
    }
    if terms.structured {
        flags |= SEND_DF;
    }
    flags
}

/// Replies to one option.
struct Replies<'a> {
    out: &'a mut Vec<u8>,
    code: u32,
}

impl Replies<'_> {
    fn send(&mut self, kind: ReplyKind, data: &[&[u8]]) {
        options::reply(self.out, self.code, kind, data);
    }

    fn ack(&mut self) {
        self.send(ReplyKind::Ack, &[]);
    }

    fn error(&mut self, kind: ReplyKind, text: &str) {
        self.send(kind, &[text.as_bytes()]);
    }

    fn info(&mut self, item: u16, data: &[&[u8]]) {
        let item = item.to_be_bytes();
        let parts: Vec<&[u8]> = std::iter::once(&item[..]).chain(data.iter().copied()).collect();
        self.send(ReplyKind::Info, &parts);
    }

    fn context(&mut self, id: u32) {
        self.send(ReplyKind::MetaContext, &[&id.to_be_bytes(), CONTEXT_NAME.as_bytes()]);
    }
}
