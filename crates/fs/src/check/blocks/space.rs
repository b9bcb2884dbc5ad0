//! Bitmaps and chunk tables against the blocks in use, after the walk.

use crate::check::outcome::invariants as iv;
use crate::check::pass::{Claim, Pass};
use crate::space;
use crate::vocabulary::error::Outcome;
use lanefs_format::{
    BLOCK, BLOCKS_PER_CHUNK, BLOCKS_PER_GROUP, BlockKind, CHUNK, CHUNK_HEADER_BLOCKS, CHUNKS_PER_GROUP,
    GROUP, chunk_entry, chunk_header, group as g,
};

/// Groups in a batch.
const GROUPS: usize = 8;

/// The required masks of a group's metadata chunks.
#[derive(Clone, Copy, Default)]
struct Masks {
    metadata: u64,
    room: u64,
    inode_room: u64,
}

impl Pass<'_, '_> {
    /// Compares the allocator's structures with the blocks in use, and corrects them. Returns the volume's
    /// free blocks.
    pub(in crate::check) fn check_space(&mut self) -> Outcome<u64> {
        self.settle();
        self.check_sums_are_there()?;
        let mut claims = std::mem::take(&mut self.claims);
        claims.retain(|claim| self.claimed.get(claim.at / BLOCK));
        claims.sort_unstable_by_key(|claim| claim.at);
        let free = self.in_batches(self.core.group_count() as usize, GROUPS, |pass, range| {
            let mut free = 0;
            for number in range {
                free += pass.check_group_and_chunks(number as u64, &claims)?;
            }
            Ok(free)
        })?;
        Ok(free.into_iter().sum())
    }

    /// Checks one group and its metadata chunks. Returns its free blocks.
    fn check_group_and_chunks(&mut self, number: u64, claims: &[Claim]) -> Outcome<u64> {
        let mut masks = Masks::default();
        let metadata = self.masks[number as usize];
        for chunk in (0..CHUNKS_PER_GROUP).filter(|chunk| metadata >> chunk & 1 != 0) {
            let at = number * GROUP + chunk * CHUNK;
            let first = claims.partition_point(|claim| claim.at < at);
            let end = claims.partition_point(|claim| claim.at < at + CHUNK);
            let (used, inode_room) = self.check_chunk(at, &claims[first..end])?;
            if !used && self.mends() {
                // The chunk is free as a whole now, its table too.
                for index in 0..CHUNK_HEADER_BLOCKS {
                    self.claimed.clear(at / BLOCK + index);
                }
            } else {
                masks.metadata |= 1 << chunk;
                masks.inode_room |= u64::from(inode_room) << chunk;
                let full =
                    (CHUNK_HEADER_BLOCKS..BLOCKS_PER_CHUNK).all(|index| self.claimed.get(at / BLOCK + index));
                masks.room |= u64::from(!full) << chunk;
            }
        }
        self.check_group(number, masks)
    }

    /// Checks one metadata chunk. Returns whether it has a used block, and whether it has a free inode.
    fn check_chunk(&mut self, chunk: u64, claims: &[Claim]) -> Outcome<(bool, bool)> {
        let per = self.inodes.per_block() as u64;
        let (mut used, mut said_used, mut inode_room) = (0u64, 0u64, false);
        let mut entries = vec![(0u8, 0u8, 0u64); BLOCKS_PER_CHUNK as usize];
        for claim in claims {
            entries[(claim.at % CHUNK / BLOCK) as usize] = (claim.kind as u8, 0, claim.owner);
        }
        for index in CHUNK_HEADER_BLOCKS..BLOCKS_PER_CHUNK {
            let at = chunk + index * BLOCK;
            let entry = self.table_entry(at)?;
            let said = entry.map_or(0, |entry| entry.get(chunk_entry::KIND));
            if entry.is_some_and(|entry| entry.get(chunk_entry::RESERVED) != 0) {
                self.findings.add(at, &iv::CHUNK_ENTRY_ZERO, "reserved bytes");
            }
            said_used += u64::from(said != 0);
            if !self.claimed.get(at / BLOCK) {
                if said != 0 {
                    self.findings.add(at, &iv::METADATA_LEAKED, format!("kind {said}"));
                }
                continue;
            }
            used += 1;
            if let Some(count) = self.inodes.used_in(at) {
                inode_room |= count < per;
                entries[index as usize] = (BlockKind::Inodes as u8, count as u8, 0);
            }
        }
        if let Some(header) = self.load(chunk, BlockKind::ChunkHeader)? {
            let said = u64::from(header.get(chunk_header::USED));
            if said != said_used + CHUNK_HEADER_BLOCKS {
                self.findings.add(chunk, &iv::CHUNK_USED, format!("{said} instead of {}", said_used + 2));
            }
            if said_used == 0 {
                self.findings.add(chunk, &iv::CHUNK_EMPTY, "");
            }
        }
        if self.mends() {
            self.write_chunk(chunk, &entries, used)?;
        }
        Ok((used > 0, inode_room))
    }

    /// Writes a chunk's table for the blocks in use.
    fn write_chunk(&mut self, chunk: u64, entries: &[(u8, u8, u64)], used: u64) -> Outcome<()> {
        let position = |index: usize| chunk + index as u64 * BLOCK;
        self.mend(|edit| {
            for (index, (kind, count, owner)) in entries.iter().enumerate().skip(CHUNK_HEADER_BLOCKS as usize)
            {
                let entry = space::table_entry(edit.core, position(index))?;
                if *kind != BlockKind::Pointers as u8 {
                    edit.tx.put(entry, chunk_entry::CHECKSUM, 0);
                }
                edit.tx.put(entry, chunk_entry::KIND, *kind);
                edit.tx.put(entry, chunk_entry::USED, *count);
                edit.tx.put(entry, chunk_entry::RESERVED, 0);
                edit.tx.put(entry, chunk_entry::OWNER, *owner);
                if *kind == 0 {
                    edit.tx.vacate(position(index));
                }
            }
            let header = edit.store().block(chunk, BlockKind::ChunkHeader)?;
            edit.tx.put(header, chunk_header::USED, (used + CHUNK_HEADER_BLOCKS) as u32);
            if used == 0 {
                for index in 0..CHUNK_HEADER_BLOCKS as usize {
                    edit.tx.vacate(position(index));
                }
            }
            Ok(())
        })?;
        Ok(())
    }

    /// Checks one group's bitmap, masks and counts. Returns its free blocks.
    fn check_group(&mut self, number: u64, masks: Masks) -> Outcome<u64> {
        let first = number * BLOCKS_PER_GROUP;
        let inside = self.blocks().saturating_sub(first).min(BLOCKS_PER_GROUP);
        let reserved = self.reserved();
        let claimed = self.claimed.words(number);
        let wanted: Vec<u64> = (0..g::BITMAP.len as u64)
            .map(|i| {
                let chunk = i * 64 / BLOCKS_PER_CHUNK;
                let whole = if masks.metadata >> chunk & 1 != 0 { u64::MAX } else { 0 };
                claimed.as_ref().map_or(0, |words| words[i as usize]) | reserved.word(number, i) | whole
            })
            .collect();
        let free: u64 = wanted.iter().map(|word| u64::from(word.count_zeros())).sum();
        let at = self.core.groups() + number * BLOCK;
        if let Some(view) = self.group_block(number)? {
            let mut clear = 0;
            let (mut leaked, mut unmarked, mut past) = ((0, 0), (0, 0), 0);
            for (i, wanted) in wanted.iter().enumerate() {
                let word = view.get(g::BITMAP.index(i));
                clear += u64::from(word.count_zeros());
                let base = i as u64 * 64;
                let end = inside.saturating_sub(base).min(64);
                let inner = if end == 0 { 0 } else { u64::MAX >> (64 - end) };
                tally(&mut leaked, base, word & !wanted);
                tally(&mut unmarked, base, wanted & !word & inner);
                past += u64::from((wanted & !word & !inner).count_ones());
            }
            let position = |bit: u64| (first + bit) * BLOCK;
            if leaked.0 > 0 {
                self.findings.add(
                    position(leaked.1),
                    &iv::BLOCK_LEAKED,
                    format!("{} in group {number}", leaked.0),
                );
            }
            if unmarked.0 > 0 {
                self.findings.add(
                    position(unmarked.1),
                    &iv::BLOCK_NOT_MARKED,
                    format!("{} in group {number}", unmarked.0),
                );
            }
            if past > 0 {
                self.findings.add(at, &iv::GROUP_END, format!("{past} in group {number}"));
            }
            let said = view.get(g::FREE);
            if said != clear {
                self.findings.add(
                    at,
                    &iv::GROUP_FREE,
                    format!("group {number} says {said} instead of {clear}"),
                );
            }
            // A bit of ROOM without room costs only a search, which clears it; so does one of INODE_ROOM.
            let metadata = self.masks[number as usize];
            for (field, needed, broken) in [
                (g::ROOM, masks.room, &iv::GROUP_ROOM),
                (g::INODE_ROOM, masks.inode_room, &iv::GROUP_INODE_ROOM),
            ] {
                let said = view.get(field);
                let wrong = needed & !said | said & !metadata;
                if wrong != 0 {
                    self.findings.add(at, broken, format!("group {number}, chunks {wrong:#x}"));
                }
            }
        }
        if self.mends() {
            self.write_group(number, &wanted, free, masks)?;
        }
        Ok(free)
    }

    fn write_group(&mut self, number: u64, bitmap: &[u64], free: u64, masks: Masks) -> Outcome<()> {
        let at = self.core.groups() + number * BLOCK;
        let readable = self.load(at, BlockKind::Group)?;
        self.mend(|edit| {
            let view = match readable {
                Some(view) => view,
                None => {
                    edit.tx.vacate(at);
                    edit.tx.fresh(at, BlockKind::Group, number)?
                }
            };
            edit.tx.put(view, g::OWNER, number);
            edit.tx.put(view, g::FREE, free);
            edit.tx.put(view, g::METADATA, masks.metadata);
            let keep = |field| view.get(field) & masks.metadata;
            edit.made_room = true;
            edit.tx.put(view, g::ROOM, keep(g::ROOM) | masks.room);
            edit.tx.put(view, g::INODE_ROOM, keep(g::INODE_ROOM) | masks.inode_room);
            for (i, word) in bitmap.iter().enumerate() {
                edit.tx.put(view, g::BITMAP.index(i), *word);
            }
            Ok(())
        })?;
        Ok(())
    }
}

/// Counts bits and keeps the first one's number.
fn tally(count: &mut (u64, u64), base: u64, bits: u64) {
    if bits != 0 {
        if count.0 == 0 {
            count.1 = base + u64::from(bits.trailing_zeros());
        }
        count.0 += u64::from(bits.count_ones());
    }
}
