//! A toy NBD server for tests of the harness: a volume in memory with a volatile cache, which
//! forgets on a crash what it may, or more.

use std::io::{self, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::{Arc, Mutex};

/// What is on the platter, and what is in the cache.
#[derive(Clone, Default)]
pub struct Memory {
    pub cached: Vec<u8>,
    pub durable: Vec<u8>,
    /// Reads of these bytes fail.
    pub broken: std::ops::Range<usize>,
    /// A flush is answered and does nothing.
    pub lies: bool,
}

impl Memory {
    pub fn new(bytes: usize) -> Memory {
        Memory { cached: vec![0; bytes], durable: vec![0; bytes], ..Memory::default() }
    }

    pub fn crash(&mut self) {
        self.cached.clone_from(&self.durable);
    }
}

pub struct Toy {
    pub memory: Arc<Mutex<Memory>>,
    connections: Arc<Mutex<Vec<UnixStream>>>,
}

impl Toy {
    #[expect(clippy::disallowed_methods, reason = "threads of a test, gone with its process")]
    pub fn serve(socket: &Path, memory: Memory) -> Toy {
        let _ = std::fs::remove_file(socket);
        let listener = UnixListener::bind(socket).expect("a free name");
        let memory = Arc::new(Mutex::new(memory));
        let connections = Arc::new(Mutex::new(Vec::new()));
        let (shared, all) = (Arc::clone(&memory), Arc::clone(&connections));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let stream = stream.expect("a client");
                all.lock().expect("no panic").push(stream.try_clone().expect("a descriptor"));
                let memory = Arc::clone(&shared);
                std::thread::spawn(move || drop(Session { stream, memory }.run()));
            }
        });
        Toy { memory, connections }
    }

    /// All clients lose their server, which loses its cache.
    pub fn crash(&self) {
        for stream in self.connections.lock().expect("no panic").drain(..) {
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
        self.memory.lock().expect("no panic").crash();
    }
}

struct Session {
    stream: UnixStream,
    memory: Arc<Mutex<Memory>>,
}

impl Session {
    fn take<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.stream.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    fn run(mut self) -> io::Result<()> {
        self.greet()?;
        loop {
            let header: [u8; 28] = self.take()?;
            let word = |at: usize| u32::from_be_bytes(header[at..at + 4].try_into().expect("four"));
            let (flags, command) = (word(4) >> 16, word(4) & 0xffff);
            let offset = u64::from_be_bytes(header[16..24].try_into().expect("eight"));
            let at = usize::try_from(offset).expect("small");
            let range = at..at + word(24) as usize;
            let mut data = vec![0; if command == 1 { range.len() } else { 0 }];
            self.stream.read_exact(&mut data)?;
            let (error, payload) = match command {
                2 => return Ok(()),
                _ => self.carry_out(command, flags & 1 != 0, range, &data),
            };
            let mut reply = 0x6744_6698u32.to_be_bytes().to_vec();
            reply.extend(u32::to_be_bytes(error));
            reply.extend(&header[8..16]);
            reply.extend(payload);
            self.stream.write_all(&reply)?;
        }
    }

    fn carry_out(
        &self,
        command: u32,
        fua: bool,
        range: std::ops::Range<usize>,
        data: &[u8],
    ) -> (u32, Vec<u8>) {
        let mut memory = self.memory.lock().expect("no panic");
        match command {
            0 if range.start < memory.broken.end && memory.broken.start < range.end => {
                return (5, Vec::new());
            }
            0 => return (0, memory.cached[range].to_vec()),
            1 => memory.cached[range.clone()].copy_from_slice(data),
            6 => memory.cached[range.clone()].fill(0),
            _ if !memory.lies => memory.durable = memory.cached.clone(),
            _ => {}
        }
        if fua {
            let bytes = memory.cached[range.clone()].to_vec();
            memory.durable[range].copy_from_slice(&bytes);
        }
        (0, Vec::new())
    }

    /// The one volume there is, whatever it is called.
    fn greet(&mut self) -> io::Result<()> {
        self.stream.write_all(b"NBDMAGICIHAVEOPT\x00\x03")?;
        self.take::<4>()?;
        let option: [u8; 16] = self.take()?;
        let length = u32::from_be_bytes(option[12..].try_into().expect("four"));
        self.stream.read_exact(&mut vec![0; length as usize])?;
        let size = self.memory.lock().expect("no panic").cached.len() as u64;
        // Flags, flush, FUA, zeroes, and flushes that cover all connections.
        let info = [&[0, 0][..], &size.to_be_bytes(), &0x014du16.to_be_bytes()].concat();
        for (kind, payload) in [(3u32, info.as_slice()), (1, &[])] {
            let length = u32::try_from(payload.len()).expect("short");
            let mut reply = 0x0003_e889_0455_65a9_u64.to_be_bytes().to_vec();
            [7, kind, length].iter().for_each(|word| reply.extend(word.to_be_bytes()));
            reply.extend(payload);
            self.stream.write_all(&reply)?;
        }
        Ok(())
    }
}

mod tests {
    use std::time::Duration;

    use super::super::super::model::Kind;
    use super::super::super::pattern::{self, Found, SECTOR, Stamp};
    use super::super::check::{self, Report};
    use super::super::clients::{self, Load, Target};
    use super::super::ledger::{Excuse, Ledger};
    use super::*;
    use crate::clock::poll;

    const SECTORS: u64 = 4096;
    const CONNECTIONS: usize = 3;
    const OWN: usize = CONNECTIONS;

    struct Bench {
        toy: Toy,
        target: Target,
    }

    fn bench(name: &str) -> Bench {
        let folder = std::env::temp_dir().join(format!("storm-toy-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let socket = folder.join(name);
        let toy = Toy::serve(&socket, Memory::new(SECTORS as usize * SECTOR));
        let ledger = Ledger::new(SECTORS, 0, CONNECTIONS + 1);
        let ledger = Arc::new(Mutex::new(ledger));
        Bench { toy, target: Target { export: name.to_owned(), socket, ledger } }
    }

    impl Bench {
        /// A volume that is full, and a load that a crash ends.
        fn load_and_crash(&self) -> Vec<Stamp> {
            clients::fill(&self.target, OWN).expect("it is served");
            let mut client = self.target.connect().expect("it is served");
            clients::flush(&self.target, &mut client, OWN).expect("it is served");
            let targets = std::slice::from_ref(&self.target);
            let load = Load::start(targets, CONNECTIONS, 7, false).expect("it is served");
            let busy = || (self.target.ledger().sent() > 60).then_some(());
            poll(Duration::from_secs(60), busy).expect("the clients write");
            self.toy.crash();
            for ended in load.end() {
                assert_eq!(ended.failure, None);
            }
            self.target.ledger().fold()
        }

        fn check(&self) -> Report {
            self.target.ledger().fold();
            let mut client = self.target.connect().expect("it is served");
            check::read(&self.target, &mut client).expect("it is served")
        }

        fn memory(&self) -> std::sync::MutexGuard<'_, Memory> {
            self.toy.memory.lock().expect("no panic")
        }

        /// Replaces what a sector holds.
        fn put(&self, sector: u64, change: impl FnOnce(&mut [u8], Found)) {
            let at = sector as usize * SECTOR;
            let bytes = &mut self.memory().cached[at..at + SECTOR];
            let found = pattern::read(bytes, sector);
            change(bytes, found);
        }
    }

    fn kinds(report: &Report) -> Vec<(u64, Kind)> {
        report.wrong.iter().map(|wrong| (wrong.sector, wrong.kind)).collect()
    }

    #[test]
    fn a_server_that_keeps_what_was_flushed_is_right() {
        let bench = bench("honest");
        bench.load_and_crash();
        let report = bench.check();
        assert!(report.wrong.is_empty() && report.unreadable.is_empty(), "{:?}", report.wrong);
        assert_eq!(report.flushed, SECTORS, "all of it was filled");
        let mut client = bench.target.connect().expect("it is served");
        check::settle(&bench.target, &mut client, OWN, &report).expect("it is served");
        bench.toy.crash();
        assert!(bench.check().wrong.is_empty(), "what was read and flushed stays");
    }

    #[test]
    fn a_server_whose_flushes_do_nothing_is_caught() {
        let bench = bench("liar");
        bench.memory().lies = true;
        bench.load_and_crash();
        let kinds = kinds(&bench.check());
        assert!(kinds.iter().any(|(_, kind)| *kind == Kind::Lost), "{} wrong", kinds.len());
    }

    /// Old, noise, and another sector's bytes, where nothing but one version is right.
    #[test]
    fn every_sector_that_is_spoiled_is_found() {
        let bench = bench("spoiled");
        clients::fill(&bench.target, OWN).expect("it is served");
        clients::fill(&bench.target, OWN).expect("it is served");
        let mut client = bench.target.connect().expect("it is served");
        clients::flush(&bench.target, &mut client, OWN).expect("it is served");
        bench.put(5, |bytes, found| {
            let Found::Written(stamp) = found else { panic!("it was filled") };
            pattern::fill(bytes, Stamp { sequence: stamp.sequence - 8, ..stamp }, 5);
        });
        bench.put(600, |bytes, _| bytes[77] ^= 1);
        bench.put(601, |bytes, _| {
            pattern::fill(bytes, Stamp { sequence: 16, first: 602, count: 1 }, 602);
        });
        bench.put(700, |bytes, _| bytes.fill(0));
        let wrong =
            [(5, Kind::Lost), (600, Kind::Garbage), (601, Kind::Garbage), (700, Kind::Lost)];
        assert_eq!(kinds(&bench.check()), wrong);
    }

    #[test]
    fn a_sector_that_can_not_be_read_is_found_alone() {
        let bench = bench("broken");
        clients::fill(&bench.target, OWN).expect("it is served");
        bench.memory().broken = 1001 * SECTOR..1003 * SECTOR;
        let report = bench.check();
        assert_eq!(report.unreadable, [(1001, 5), (1002, 5)]);
        assert!(report.wrong.is_empty());
    }

    /// What a crash cut short together with a drive may be anything, and is known again later.
    #[test]
    fn what_is_excused_is_counted_and_written_anew() {
        let bench = bench("excused");
        clients::fill(&bench.target, OWN).expect("it is served");
        let stamp = Stamp { sequence: 0, first: 127, count: 2 };
        bench.target.ledger().fold();
        bench.target.ledger().excuse(&[stamp], Excuse::LostWithCrash);
        for sector in 127..130 {
            bench.put(sector, |bytes, _| bytes[9] ^= 1);
        }
        let report = bench.check();
        assert_eq!(kinds(&report), [(129, Kind::Garbage)]);
        assert_eq!(report.excused[&Excuse::LostWithCrash], 2);
        let mut client = bench.target.connect().expect("it is served");
        check::settle(&bench.target, &mut client, OWN, &report).expect("it is served");
        bench.put(128, |bytes, _| bytes[9] ^= 1);
        assert_eq!(kinds(&bench.check()), [(128, Kind::Garbage), (129, Kind::Garbage)]);
    }

    #[test]
    fn an_answered_write_is_read_back_as_it_was_without_a_crash() {
        let bench = bench("misread");
        clients::fill(&bench.target, OWN).expect("it is served");
        bench.memory().cached[..SECTOR].fill(0);
        let zeroes = [0; SECTOR];
        let wrong = bench.target.ledger().check_read(0, &zeroes).expect_err("it was written");
        assert_eq!(wrong.kind, Kind::Misread);
    }
}
