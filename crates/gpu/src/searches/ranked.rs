//! Paths in the device's memory, which are ranked for queries: only a query's letters go to the device, and
//! only its best paths come back.

use crate::error::{Error, Result};
use crate::inputs::needles::Needles;
use crate::inputs::path_bundles::PathBundles;
use crate::kernels::BEST;
use crate::kernels::context::DeviceContext;
use crate::resident::tables::PARAMETERS_BYTES;
use crate::shared::layout::{SCORE_BUCKETS, SCORE_UNDECIDED, STRIDE_PATHS};
use crate::shared::structures::{BestHeader, Parameters, RankProgram, RankedPath};
use crate::vulkan::{Buffer, Commands, Direction, MemoryLocation, Staged};
use lanefs_sync::lock::Mutex;

/// Bytes of a program, as the kernels read it. Parameters after it begin at a multiple of their alignment.
const PROGRAM_BYTES: u64 = (RankProgram::SIZE as u64).next_multiple_of(64);

/// Bytes of paths in one piece of device memory, and a little more.
const PART_BYTES: usize = 32 << 20;

/// Most paths: kernels round their number up.
const MOST_PATHS: usize = 1 << 31;

/// Bytes of the count of scores.
const TALLY_BYTES: u64 = SCORE_BUCKETS as u64 * 4;

/// Paths that a device has, for any number of queries. Any number of threads may use it.
pub struct RankedPaths {
    context: DeviceContext,
    /// Comes before the paths: dropping it waits for the device.
    state: Mutex<RankMemory>,
    parts: Vec<PathPart>,
    count: usize,
    /// Why the device is not used any more.
    failure: Mutex<Option<Error>>,
}

/// Paths in one piece of memory.
struct PathPart {
    memory: Buffer,
    count: usize,
}

/// Memory of the queries. (Commands come first: dropping them waits for their end.)
struct RankMemory {
    commands: Commands,
    /// The program, the parameters of `score` for each part, those of `tally`, and those of `best`.
    input: Staged,
    scores: Buffer,
    tally: Staged,
    best: Option<Staged>,
    /// The program whose scores the device has, and how often it has each.
    scored: Option<(RankProgram, Vec<u32>)>,
}

/// The best paths of a query.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BestPaths {
    /// Number of the decided paths that match all terms.
    pub matched: usize,
    /// Number and score of those whose score is at least that of the last one within the limit, in any order.
    pub best: Vec<(u32, u32)>,
    /// Numbers of the paths that the host must decide, in any order: those that are not ASCII, those of more
    /// than 1,024 bytes, and those of which the terms match too many parts.
    pub undecided: Vec<u32>,
}

impl RankedPaths {
    /// Copies so many paths to the device. `path` appends the path of a number.
    pub(crate) fn new(
        context: &DeviceContext,
        count: usize,
        path: &mut dyn FnMut(u32, &mut Vec<u8>),
    ) -> Result<Self> {
        if count > MOST_PATHS {
            let code = ash::vk::Result::ERROR_OUT_OF_DEVICE_MEMORY;
            return Err(Error::Device { operation: "copying paths", code });
        }
        let (mut parts, mut bundles, mut text) = (Vec::new(), PathBundles::default(), Vec::new());
        for number in 0..count as u32 {
            if bundles.is_whole() && bundles.bytes() >= PART_BYTES {
                parts.push(PathPart::new(context, std::mem::take(&mut bundles))?);
            }
            text.clear();
            path(number, &mut text);
            bundles.push(&text);
        }
        if bundles.count() > 0 {
            parts.push(PathPart::new(context, bundles)?);
        }
        let state = Mutex::new(RankMemory::new(context, count, parts.len())?);
        Ok(RankedPaths { context: context.clone(), state, parts, count, failure: Mutex::default() })
    }

    /// Returns the number of paths.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Tells whether there are no paths.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the best paths for some terms: those that may be among the first `limit`, if paths of a higher
    /// score come first. `None` where the device fails, now or before, or has no memory for the result.
    pub fn best(&self, needles: &Needles, limit: usize) -> Option<BestPaths> {
        if self.failure.lock().is_some() {
            return None;
        }
        let mut state = self.state.lock();
        match self.search(&mut state, needles.program(), limit) {
            Ok(found) => return Some(found),
            Err(error) => {
                state.scored = None;
                state.best = None;
                if !error.is_short_of_memory() {
                    self.failure.lock().get_or_insert(error);
                }
            }
        }
        None
    }

    /// Returns in words why the device is not used any more; `None` while it is.
    pub fn failure(&self) -> Option<String> {
        self.failure.lock().as_ref().map(ToString::to_string)
    }

    fn search(&self, state: &mut RankMemory, program: &RankProgram, limit: usize) -> Result<BestPaths> {
        if self.count == 0 {
            return Ok(BestPaths::default());
        }
        // A limit that grows needs no new scores.
        let counts = match state.scored.take() {
            Some((known, counts)) if known == *program => counts,
            _ => self.score(state, program)?,
        };
        let matched: u64 = counts[1..].iter().copied().map(u64::from).sum();
        let (least, listed) = threshold(&counts, limit);
        let listed = self.list(state, program, least, listed + counts[0] as usize)?;
        state.scored = Some((*program, counts));
        let mut found = BestPaths { matched: matched as usize, ..BestPaths::default() };
        for RankedPath { number, score } in listed {
            match score {
                SCORE_UNDECIDED => found.undecided.push(number),
                score => found.best.push((number, score)),
            }
        }
        Ok(found)
    }

    /// Has the device score all paths and count the scores. Returns the counts.
    fn score(&self, state: &mut RankMemory, program: &RankProgram) -> Result<Vec<u32>> {
        let RankMemory { commands, input, scores, tally, .. } = state;
        let kernels = &self.context.kernels;
        let address = input.address();
        let (program_bytes, mut rest) = input.bytes_mut().split_at_mut(PROGRAM_BYTES as usize);
        program.write(program_bytes);
        let mut put = |parameters: Parameters| {
            let (first, others) = std::mem::take(&mut rest).split_at_mut(PARAMETERS_BYTES as usize);
            parameters.write(first);
            rest = others;
        };
        let parameters = Parameters { text: address, fuel: self.context.fuel(), ..Parameters::default() };
        let mut answers = scores.address;
        for part in &self.parts {
            put(Parameters { starts: part.memory.address, answers, count: part.count as u32, ..parameters });
            answers += part.count as u64 * 4;
        }
        let count = self.count as u32;
        put(Parameters { starts: scores.address, answers: tally.address(), count, ..parameters });
        commands.record(|recording| {
            input.transfer(recording, self.parameters_at(self.parts.len() + 1));
            for (number, part) in self.parts.iter().enumerate() {
                let parameters = address + self.parameters_at(number);
                recording.dispatch(&kernels.score, parameters, part.count as u64);
            }
            tally.clear(recording, TALLY_BYTES);
            let parameters = address + self.parameters_at(self.parts.len());
            recording.dispatch(&kernels.tally, parameters, self.count.div_ceil(STRIDE_PATHS) as u64);
            tally.transfer(recording, TALLY_BYTES);
        })?;
        commands.submit()?;
        commands.wait()?;
        let (words, _) = tally.bytes().as_chunks::<4>();
        Ok(words.iter().take(SCORE_BUCKETS).map(|word| u32::from_le_bytes(*word)).collect())
    }

    /// Has the device list the paths with at least some score, of which there are so many.
    fn list(
        &self,
        state: &mut RankMemory,
        program: &RankProgram,
        least: u32,
        room: usize,
    ) -> Result<Vec<RankedPath>> {
        if room == 0 {
            return Ok(Vec::new());
        }
        let bytes = (BestHeader::SIZE + room * RankedPath::SIZE) as u64;
        if state.best.as_ref().is_none_or(|best| best.len() < bytes) {
            state.best = None;
            // Lists of about the same length find room in it.
            let room = bytes.next_power_of_two();
            state.best = Some(Staged::new(&self.context.device, room, Direction::ToHost)?);
        }
        let RankMemory { commands, input, scores, best, .. } = state;
        let Some(best) = best else { return Ok(Vec::new()) };
        let (address, at) = (input.address(), self.parameters_at(self.parts.len() + 1));
        RankProgram { least, ..*program }.write(input.bytes_mut());
        let parameters = Parameters {
            text: address,
            starts: scores.address,
            answers: best.address(),
            count: self.count as u32,
            room: room as u32,
            fuel: self.context.fuel(),
            ..Parameters::default()
        };
        parameters.write(&mut input.bytes_mut()[at as usize..]);
        commands.record(|recording| {
            input.transfer(recording, at + PARAMETERS_BYTES);
            best.clear(recording, BestHeader::SIZE as u64);
            let invocations = self.count.div_ceil(STRIDE_PATHS) as u64;
            recording.dispatch(&self.context.kernels.best, address + at, invocations);
            best.transfer(recording, bytes);
        })?;
        commands.submit()?;
        commands.wait()?;
        let count = BestHeader::read(best.bytes()).count as usize;
        let list = &best.bytes()[BestHeader::SIZE..bytes as usize];
        let listed: Vec<RankedPath> = RankedPath::read_all(list).collect();
        if count != room || listed.iter().any(|path| path.number as usize >= self.count) {
            return Err(Error::Wrong { kernel: BEST.into(), what: format!("{count} paths of {room}") });
        }
        Ok(listed)
    }

    /// Offset of the parameters of a dispatch.
    fn parameters_at(&self, number: usize) -> u64 {
        PROGRAM_BYTES + number as u64 * PARAMETERS_BYTES
    }

    /// Returns the device's scores and counts for some terms, and its list of the paths with some score.
    ///
    /// # Errors
    /// An error of the device.
    pub(crate) fn rank_directly(
        &self,
        needles: &Needles,
        least: u32,
    ) -> Result<(Vec<u32>, Vec<u32>, Vec<RankedPath>)> {
        let mut state = self.state.lock();
        state.scored = None;
        let counts = self.score(&mut state, needles.program())?;
        let bytes = state.scores.read(&self.context.device)?;
        let (words, _) = bytes.as_chunks::<4>();
        let scores: Vec<u32> = words.iter().take(self.count).map(|word| u32::from_le_bytes(*word)).collect();
        let room = scores.iter().filter(|score| **score >= least).count();
        let mut listed = self.list(&mut state, needles.program(), least, room)?;
        listed.sort_unstable_by_key(|path| path.number);
        Ok((scores, counts, listed))
    }
}

/// Returns the least score of the paths to list, and their number without those that are undecided.
fn threshold(counts: &[u32], limit: usize) -> (u32, usize) {
    let (mut least, mut listed) = (counts.len(), 0);
    while least > 1 && listed < limit {
        least -= 1;
        listed += counts[least] as usize;
    }
    (least as u32, listed)
}

impl PathPart {
    fn new(context: &DeviceContext, bundles: PathBundles) -> Result<PathPart> {
        let (device, bytes) = (&context.device, bundles.bytes() as u64);
        let mut memory = Buffer::new(device, bytes, MemoryLocation::Device)?;
        let address = memory.address;
        if let Some(to) = memory.bytes_mut() {
            bundles.write(address, &mut to[..bytes as usize]);
        } else {
            let mut host = Buffer::new(device, bytes, MemoryLocation::Upload)?;
            host.bytes_mut().into_iter().for_each(|to| bundles.write(address, &mut to[..bytes as usize]));
            let mut commands = Commands::new(device)?;
            commands.record(|recording| recording.copy(&host, &memory, &[(0, 0, bytes)]))?;
            commands.submit()?;
            commands.wait()?;
        }
        Ok(PathPart { memory, count: bundles.count() })
    }
}

impl RankMemory {
    fn new(context: &DeviceContext, count: usize, parts: usize) -> Result<RankMemory> {
        let device = &context.device;
        Ok(RankMemory {
            commands: Commands::new(device)?,
            input: Staged::new(
                device,
                PROGRAM_BYTES + (parts as u64 + 2) * PARAMETERS_BYTES,
                Direction::ToDevice,
            )?,
            scores: Buffer::new(device, count as u64 * 4, MemoryLocation::Device)?,
            tally: Staged::new(device, TALLY_BYTES, Direction::ToHost)?,
            best: None,
            scored: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_threshold_is_the_score_of_the_last_path_within_the_limit() {
        let mut counts = vec![0; 10];
        (counts[0], counts[2], counts[5], counts[9]) = (7, 1, 3, 2);
        for (limit, expected) in [
            (0, (10, 0)),
            (1, (9, 2)),
            (2, (9, 2)),
            (3, (5, 5)),
            (5, (5, 5)),
            (6, (2, 6)),
            (7, (1, 6)),
            (usize::MAX, (1, 6)),
        ] {
            assert_eq!(threshold(&counts, limit), expected, "{limit}");
        }
    }
}
