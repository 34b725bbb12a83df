//! Pages that a world may find lost: written since the last flush, and a copy of them rotted.

use super::*;

impl<S: Subject> World<S> {
    /// All that clients use. What may fail to be read and does is written again, and so is known.
    pub(super) fn read_all(&mut self, store: &S::Store) -> Vec<u8> {
        let may_fail = std::mem::take(&mut self.may_fail);
        let (start, end) = (self.base * SECTOR, (self.base + SPAN) * SECTOR);
        match self.env.block_on(store.read(start, end - start)) {
            Ok(read) => return read.to_vec(),
            Err(error) if error.is_page_lost() && !may_fail.is_empty() => {}
            Err(error) => panic!("read: {error}"),
        }
        let (mut bytes, first) = (Vec::new(), start / PAGE);
        for page in first..end.div_ceil(PAGE) {
            match self.env.block_on(store.read(page * PAGE, PAGE)) {
                Ok(read) => bytes.extend_from_slice(&read),
                Err(error) if error.is_page_lost() && may_fail.contains(&page) => {
                    bytes.extend(self.write_again(store, page));
                }
                Err(error) => panic!("read of page {page}: {error}"),
            }
        }
        let lead = (start - first * PAGE) as usize;
        bytes[lead..lead + (end - start) as usize].to_vec()
    }

    fn write_again(&self, store: &S::Store, page: u64) -> Vec<u8> {
        let mut oracle = self.oracle.borrow_mut();
        let (number, mut bytes) = (oracle.number(), vec![0; PAGE as usize]);
        for (at, to) in (page * PAGE / SECTOR..).zip(bytes.chunks_exact_mut(SECTOR as usize)) {
            if let Some(own) = at.checked_sub(self.base).filter(|own| *own < SPAN) {
                to.copy_from_slice(&content(own, number));
                oracle.of(own).may_be = vec![number];
            }
        }
        let done = self.env.block_on(store.write(page * PAGE, Buf::from_slice(&bytes), true));
        done.unwrap_or_else(|error| panic!("write of page {page}: {error}"));
        bytes
    }
}
