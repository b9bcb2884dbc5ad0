//! Random publishers, prunes and readers of one store, inside of each other's requests.

use super::*;

/// States of one volume.
static STATES: LazyLock<Vec<(Image, Volume)>> = LazyLock::new(|| {
    let image = small_volume();
    let mut random = Seeded::new(4);
    let state = |_| {
        image.change(|volume| {
            for _ in 0..3 {
                let path = format!("/d/{}", random.below(25));
                let bytes = random.below(30_000) as usize;
                volume.write_file(&path, text(&mut random, bytes)).expect("write");
            }
        });
        let home = tempfile::tempdir().expect("a directory");
        let path = home.path().join("v.lane");
        std::fs::copy(&image.path, &path).expect("a copy");
        let volume = Volume::open(&path, Access::Read).expect("open");
        (Image { home, path }, volume)
    };
    (0..6).map(state).collect()
});

/// A store that many use: at each request of one of them others may do something.
struct World {
    memory: Arc<Memory>,
    random: Mutex<Seeded>,
    /// Actors inside of which the next one acts.
    depth: AtomicU32,
    /// Actors that must not be late: between the root and the tag, or while they delete.
    hasty: AtomicI64,
    failures: Mutex<Vec<String>>,
    /// All requests that change something, for the message of a failure.
    log: Mutex<Vec<String>>,
    actors: AtomicU32,
    /// Versions, with the time at which a tag named them last while nobody was at work.
    named: Mutex<BTreeMap<Hash, i64>>,
}

/// One of the users of a store, with a request at which it ends as by a crash.
struct Actor {
    world: Arc<World>,
    left: AtomicI64,
    is_hasty: AtomicBool,
    /// Lists of condemned objects that it wrote.
    lists: AtomicU32,
    name: String,
}

impl World {
    fn below(&self, bound: u64) -> u64 {
        self.random.lock().below(bound)
    }

    fn actor(self: &Arc<Self>, what: &str) -> Arc<Actor> {
        let name = format!("{what} {}", self.actors.fetch_add(1, Ordering::Relaxed));
        let crashes = self.below(5) == 0;
        let left = if crashes { self.below(60) as i64 } else { i64::MAX };
        Arc::new(Actor {
            world: self.clone(),
            left: left.into(),
            is_hasty: false.into(),
            lists: 0.into(),
            name,
        })
    }

    /// Does something, which others may interrupt.
    fn act(self: &Arc<Self>) {
        let tag = ["latest", "draft", "old"][self.below(3) as usize];
        match self.below(10) {
            0..=2 => self.publish(tag),
            3..=6 => self.prune(),
            7 => self.read(tag),
            8 => self.tag(tag),
            _ if self.hasty.load(Ordering::Relaxed) == 0 => {
                let seconds = [1, 10, GRACE / 2, GRACE, 2 * GRACE][self.below(5) as usize];
                advance(&self.memory, seconds as i64);
            }
            _ => {}
        }
        // (Deeper ones would only find the same a moment earlier.)
        if self.depth.load(Ordering::Relaxed) <= 1 {
            self.check();
        }
    }

    fn publish(self: &Arc<Self>, tag: &str) {
        let state = self.below(STATES.len() as u64) as usize;
        let actor = self.actor("publish");
        let options = PublishOptions {
            level: 1,
            now: self.memory.now().saturating_mul(1_000_000_000),
            ..Default::default()
        };
        let began = self.memory.now();
        let published = publish(&STATES[state].1, actor.clone(), tag, &options, &|_, _| true);
        self.judge(published.map(drop), began, &actor);
    }

    fn prune(self: &Arc<Self>) {
        let actor = self.actor("prune");
        let options = PruneOptions { keep: self.below(2) as usize, ..options() };
        let began = self.memory.now();
        let left = AtomicI64::new(if self.below(4) == 0 { self.below(8) as i64 } else { i64::MAX });
        let pruned = prune(actor.clone(), &options, &|_, _| left.fetch_sub(1, Ordering::Relaxed) > 0);
        match pruned {
            Err(Error::Interrupted) => actor.ends(),
            pruned => self.judge(pruned.map(drop), began, &actor),
        }
    }

    /// A reader keeps its version for the grace period.
    fn read(self: &Arc<Self>, tag: &str) {
        let actor = self.actor("read");
        let began = self.memory.now();
        let store: Arc<dyn Store> = actor.clone();
        let read = open(&store, &Reference::Tag(tag.into())).and_then(|publication| {
            let verified = publication.verify(&|_, _| true)?;
            verified.findings.into_iter().next().map_or(Ok(()), Err)
        });
        self.judge(read, began, &actor);
    }

    fn tag(self: &Arc<Self>, tag: &str) {
        let actor = self.actor("tag");
        let store: Arc<dyn Store> = actor.clone();
        let began = self.memory.now();
        if self.below(3) == 0 {
            return self.judge(delete_tag(&store, tag).map(drop), began, &actor);
        }
        let Ok(versions) = versions(&store) else { return };
        if versions.is_empty() {
            return;
        }
        // A version without a tag may be gone at any time.
        let version = versions[self.below(versions.len() as u64) as usize].version;
        let set = set_tag(&store, tag, &Reference::Version(version), 0, true);
        match set {
            Err(Error::Store { source: StoreError::Missing, .. }) => actor.ends(),
            set => self.judge(set.map(drop), began, &actor),
        }
    }

    /// Crashes, others that were faster, and being late for the grace period excuse a failure.
    fn judge(&self, result: Result<(), Error>, began: i64, actor: &Actor) {
        actor.ends();
        let is_late = self.memory.now() - began >= GRACE as i64;
        let is_crashed = actor.left.load(Ordering::Relaxed) < 0;
        match result {
            Ok(())
            | Err(Error::NoTag(_) | Error::TagMoved(_) | Error::PruneRuns(_) | Error::Condemned(_)) => {}
            Err(_) if is_late || is_crashed => {}
            Err(error) => self.fail(format!("{} (since {}): {error}", actor.name, began - START)),
        }
    }

    /// Notes a failure with the last requests before the first one.
    fn fail(&self, text: String) {
        let mut failures = self.failures.lock();
        let log = self.log.lock();
        let last = if failures.is_empty() { log.len().saturating_sub(300) } else { log.len() };
        failures.extend_from_slice(&log[last..]);
        failures.push(text);
    }

    /// Every tag names a whole version, and versions stay whole for the grace period after that.
    fn check(&self) {
        let store: Arc<dyn Store> = self.memory.clone();
        let now = self.memory.now();
        let tags = named(&store);
        for (name, version) in &tags {
            if !is_whole(&self.memory, *version) {
                self.fail(format!("tag {name} names {version}, which is not whole"));
            }
        }
        // (A prune that is at work may have condemned what a tag names now, and no more when it looks.)
        if self.depth.load(Ordering::Relaxed) > 0 {
            return;
        }
        let mut named = self.named.lock();
        named.retain(|_, last| now - *last < GRACE as i64);
        for version in named.keys().filter(|version| tags.iter().all(|(_, tagged)| tagged != *version)) {
            if !is_whole(&self.memory, *version) {
                self.fail(format!("{version}, which a tag named a moment ago, is not whole"));
            }
        }
        named.extend(tags.iter().map(|(_, version)| (*version, now)));
    }
}

impl Actor {
    /// Notes a request that changes something, or one of a list.
    fn note(&self, what: &str, object: &str) {
        let now = self.world.memory.now() - START;
        let object = object.get(..20).unwrap_or(object);
        self.world.log.lock().push(format!("{now:6} {}: {what} {object}", self.name));
    }

    /// Begins a request. `binds` is one from which on the actor must not be late.
    fn request(&self, binds: bool) -> Outcome<()> {
        if self.left.fetch_sub(1, Ordering::Relaxed) <= 0 {
            self.left.store(-1, Ordering::Relaxed);
            return Err(StoreError::Failed("crashed".into()));
        }
        if binds && !self.is_hasty.swap(true, Ordering::Relaxed) {
            self.world.hasty.fetch_add(1, Ordering::Relaxed);
        }
        let world = &self.world;
        let depth = world.depth.load(Ordering::Relaxed);
        if depth < 3 && world.below([6, 12, 25][depth as usize]) == 0 {
            world.depth.fetch_add(1, Ordering::Relaxed);
            for _ in 0..1 + world.below(3) {
                world.act();
            }
            world.depth.fetch_sub(1, Ordering::Relaxed);
        }
        Ok(())
    }

    fn ends(&self) {
        if self.is_hasty.swap(false, Ordering::Relaxed) {
            self.world.hasty.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Store for Actor {
    fn name(&self) -> String {
        self.world.memory.name()
    }

    fn read(&self, object: &str, range: Range<u64>) -> Outcome<Vec<u8>> {
        self.request(false)?;
        self.world.memory.read(object, range)
    }

    fn read_all(&self, object: &str, most: u64) -> Outcome<(Vec<u8>, Stamp)> {
        self.request(false)?;
        self.note("reads", object);
        self.world.memory.read_all(object, most)
    }

    fn write(&self, object: &str, bytes: Vec<u8>) -> Outcome<()> {
        self.request(object.starts_with("versions/"))?;
        self.note("writes", object);
        self.world.memory.write(object, bytes)
    }

    fn replace(&self, object: &str, expected: Option<&Stamp>, bytes: Vec<u8>) -> Outcome<()> {
        // The first list is the mark, with a census after it; the second one is renewed before deletions.
        let is_list = object == "prune/condemned";
        self.request(is_list && self.lists.fetch_add(1, Ordering::Relaxed) > 0)?;
        self.note("replaces", object);
        self.world.memory.replace(object, expected, bytes)
    }

    fn delete(&self, object: &str) -> Outcome<()> {
        self.request(true)?;
        self.note("deletes", object);
        self.world.memory.delete(object)
    }

    fn list(&self, folder: &str) -> Outcome<Vec<Listed>> {
        self.request(false)?;
        self.note("lists", folder);
        self.world.memory.list(folder)
    }
}

#[test]
fn whoever_acts_when_no_tag_loses_anything_and_nothing_stays_for_ever() {
    let seeds: u64 = std::env::var("LANEFS_SEEDS").map_or(20, |seeds| seeds.parse().expect("a number"));
    let next = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let work = || {
            while let Some(seed) = Some(next.fetch_add(1, Ordering::Relaxed)).filter(|seed| *seed < seeds) {
                interleave(seed);
            }
        };
        let workers: Vec<_> = (0..2).map(|_| scope.spawn(work)).collect();
        workers.into_iter().for_each(|worker| worker.join().expect("no seed fails"));
    });
}

/// Random actors, inside of each other's requests.
fn interleave(seed: u64) {
    let world = Arc::new(World {
        memory: clocked(),
        random: Seeded::new(seed).into(),
        depth: 0.into(),
        hasty: 0.into(),
        failures: Mutex::default(),
        log: Mutex::default(),
        actors: 0.into(),
        named: Mutex::default(),
    });
    for _ in 0..25 {
        world.act();
        let failures = world.failures.lock();
        assert!(failures.is_empty(), "seed {seed}:\n{}", failures.join("\n"));
    }
    // Then nobody else is there: some prunes remove all that no tag needs.
    for _ in 0..4 {
        advance(&world.memory, 2 * GRACE as i64);
        prune_with(&world.memory, &options());
    }
    world.check();
    let left = prune_with(&world.memory, &PruneOptions { grace: 0, dry_run: true, ..options() });
    assert_eq!((left.condemned.versions, left.condemned.packs), (0, 0), "seed {seed}");
    assert_eq!(*world.failures.lock(), Vec::<String>::new(), "seed {seed}");
}
