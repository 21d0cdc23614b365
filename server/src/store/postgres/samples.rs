//! What rows repeat of each other, written once.
//!
//! The launches and decisions of a cluster resemble those before them, and those of other clusters that buy the same way. A
//! row that resembles nothing becomes a sample: a row of its own that never changes. Later ones are packed after it
//! ([`packed`](super::super::packed)) and name it by its number.
//!
//! A process remembers its own samples and no others, so that a restart costs a few samples and no search. What it remembers
//! the database may have lost, with its last commits: each write confirms its samples in its own transaction, by number and
//! by content, since a number that was lost is given again. The store lets go of samples that were not noted as used for
//! longer than decisions are kept and that no launch names; a process notes twice a day which ones it still uses.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};
use sqlx::PgConnection;

use super::super::StoreError;
use super::super::lease::Scope;
use super::super::packed::{self, LARGEST_AFTER};
use super::{PostgresStore, database};

/// A sample that was noted as used so long ago is noted again: far more often than the store lets go of any.
const NOTED: Duration = Duration::from_secs(12 * 3600);

/// Samples of one sort that a scope has at most: a decision buys machines of several sizes, each with options of its own.
const OWN: usize = 4;

/// Samples of one sort that are remembered for scopes that have none that suits.
const SHARED: usize = 8;

/// A scope makes so many samples in such a time at most: texts that never resemble each other then cost little more than their
/// own bytes.
const PACE: (usize, Duration) = (OWN, Duration::from_secs(3600));

/// A text resembles a sample when it takes at most this part of what the sample takes alone.
const PART: usize = 3;

/// A text that takes less alone gets no sample where there is any, however little it resembles it: in bytes.
const SHORT: usize = 512;

/// What resembles each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Sort {
    /// Orders of launches.
    Launch,
    /// Decisions with a plan.
    Plan,
    /// Other decisions.
    Word,
}

/// A text as a row holds it.
#[derive(Debug, Default)]
pub(super) struct Packed {
    /// The sample that it follows.
    pub(super) sample: Option<i64>,
    /// The packed text.
    pub(super) bytes: Vec<u8>,
}

/// A text as a row is to hold it, once its sample is [confirmed](PostgresStore::confirm).
#[derive(Debug)]
pub(super) struct Prepared {
    sample: Option<Arc<Sample>>,
    /// The packed text.
    pub(super) bytes: Vec<u8>,
}

impl Prepared {
    /// The number of the sample that it follows.
    pub(super) fn sample(&self) -> Option<i64> {
        self.sample.as_ref().map(|sample| sample.number)
    }

    fn alone(text: &[u8]) -> Self {
        Self { sample: None, bytes: packed::pack(&[], text) }
    }

    fn after(sample: &Arc<Sample>, text: &[u8]) -> Self {
        Self { sample: Some(Arc::clone(sample)), bytes: packed::pack(&sample.text, text) }
    }
}

/// The samples of this process.
#[derive(Debug, Default)]
pub(super) struct Samples(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    /// By scope and sort, the one that was used last at the end.
    own: BTreeMap<(Scope, Sort), Vec<Arc<Sample>>>,
    /// The last that any scope made.
    shared: BTreeMap<Sort, VecDeque<Arc<Sample>>>,
}

#[derive(Debug)]
struct Sample {
    number: i64,
    text: Vec<u8>,
    /// SHA-256 of the bytes in its row.
    hash: [u8; 32],
    /// Bytes that it takes without a sample.
    alone: usize,
    made: Instant,
    noted: Mutex<Instant>,
}

/// A text after the sample that suits it best.
type Fit = (Arc<Sample>, Prepared);

fn best(text: &[u8], samples: impl Iterator<Item = Arc<Sample>>) -> Option<Fit> {
    let fits = samples.map(|sample| {
        let prepared = Prepared::after(&sample, text);
        (sample, prepared)
    });
    fits.min_by_key(|(_, prepared)| prepared.bytes.len())
}

fn suits((sample, prepared): &Fit) -> bool {
    prepared.bytes.len() * PART <= sample.alone
}

impl Samples {
    fn lock(&self) -> MutexGuard<'_, Known> {
        // Every change is one step, so a panic elsewhere spoils nothing.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn own(&self, key: &(Scope, Sort)) -> Vec<Arc<Sample>> {
        self.lock().own.get(key).cloned().unwrap_or_default()
    }

    fn shared(&self, sort: Sort) -> VecDeque<Arc<Sample>> {
        self.lock().shared.get(&sort).cloned().unwrap_or_default()
    }

    /// The scope has used this one.
    fn used(&self, key: &(Scope, Sort), sample: &Arc<Sample>) {
        let mut known = self.lock();
        let own = known.own.entry(key.clone()).or_default();
        own.retain(|kept| kept.number != sample.number);
        own.push(Arc::clone(sample));
        if own.len() > OWN {
            own.remove(0);
        }
    }

    fn share(&self, sort: Sort, sample: &Arc<Sample>) {
        let mut known = self.lock();
        let shared = known.shared.entry(sort).or_default();
        shared.push_back(Arc::clone(sample));
        if shared.len() > SHARED {
            shared.pop_front();
        }
    }

    fn forget(&self, number: i64) {
        let mut known = self.lock();
        known.own.values_mut().for_each(|own| own.retain(|sample| sample.number != number));
        known.shared.values_mut().for_each(|shared| shared.retain(|sample| sample.number != number));
    }
}

impl PostgresStore {
    /// `text` as a row of `scope` is to hold it. A sample that it follows is in the database before the row is.
    pub(super) async fn pack(&self, scope: &Scope, sort: Sort, text: &[u8]) -> Result<Prepared, StoreError> {
        if text.len() > LARGEST_AFTER {
            return Ok(Prepared::alone(text));
        }
        let key = (scope.clone(), sort);
        let own = self.samples.own(&key);
        let young = own.iter().filter(|sample| sample.made.elapsed() < PACE.1).count();
        let mut found = best(text, own.into_iter());
        if !found.as_ref().is_some_and(suits) {
            found = best(text, self.samples.shared(sort).into_iter().chain(found.map(|(own, _)| own)));
        }
        match found {
            Some(fit) if suits(&fit) || fit.0.alone < SHORT || young >= PACE.0 => {
                self.note_used(&fit.0).await?;
                self.samples.used(&key, &fit.0);
                Ok(shorter(text, fit))
            }
            _ => {
                let sample = Arc::new(self.make_sample(text).await?);
                self.samples.share(sort, &sample);
                self.samples.used(&key, &sample);
                Ok(Prepared::after(&sample, text))
            }
        }
    }

    /// Sees to it, in the transaction that writes them, that `prepared` can be read. A database that lost its last commits (a
    /// crash that it did not wait for its disk before, a stand-in that had not caught up) lacks samples that this process
    /// remembers, or has others under their numbers: they are forgotten, and the caller packs again.
    pub(super) async fn confirm<'p>(
        &self,
        connection: &mut PgConnection,
        prepared: impl Iterator<Item = &'p Prepared>,
    ) -> Result<(), StoreError> {
        const WHAT: &str = "follow a sample of its rows";
        let followed: BTreeMap<i64, Vec<u8>> = prepared
            .filter_map(|one| one.sample.as_ref())
            .map(|sample| (sample.number, sample.hash.to_vec()))
            .collect();
        if followed.is_empty() {
            return Ok(());
        }
        let (numbers, hashes): (Vec<i64>, Vec<Vec<u8>>) = followed.into_iter().unzip();
        let there = sqlx::query_scalar!(
            "SELECT samples.number FROM unnest($1::bigint[], $2::bytea[]) AS followed (number, hash)
             JOIN samples ON samples.number = followed.number AND sha256(samples.bytes) = followed.hash",
            &numbers,
            &hashes
        );
        let there: BTreeSet<i64> = there.fetch_all(connection).await.map_err(database(WHAT))?.into_iter().collect();
        let lost: Vec<i64> = numbers.into_iter().filter(|number| !there.contains(number)).collect();
        lost.iter().for_each(|number| self.samples.forget(*number));
        let Some(number) = lost.first() else { return Ok(()) };
        let why = format!("sample {number} was committed and is not there: the database has lost commits");
        Err(StoreError::Database { what: WHAT, source: sqlx::Error::Io(io::Error::new(io::ErrorKind::NotFound, why)) })
    }

    async fn make_sample(&self, text: &[u8]) -> Result<Sample, StoreError> {
        let bytes = packed::pack(&[], text);
        let made = sqlx::query_scalar!("INSERT INTO samples (bytes) VALUES ($1) RETURNING number", bytes);
        let number = made.fetch_one(&self.pool).await.map_err(database("keep a sample of its rows"))?;
        let (now, hash) = (Instant::now(), Sha256::digest(&bytes).into());
        Ok(Sample { number, text: text.to_vec(), hash, alone: bytes.len(), made: now, noted: Mutex::new(now) })
    }

    /// Notes now and then that rows go on naming it.
    async fn note_used(&self, sample: &Sample) -> Result<(), StoreError> {
        if sample.noted.lock().unwrap_or_else(PoisonError::into_inner).elapsed() < NOTED {
            return Ok(());
        }
        let noted = sqlx::query!("UPDATE samples SET used_at = now() WHERE number = $1", sample.number);
        noted.execute(&self.pool).await.map_err(database("note that a sample is used"))?;
        *sample.noted.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        Ok(())
    }
}

fn shorter(text: &[u8], fit: Fit) -> Prepared {
    if suits(&fit) {
        return fit.1;
    }
    let alone = Prepared::alone(text);
    if alone.bytes.len() <= fit.1.bytes.len() { alone } else { fit.1 }
}

/// The samples that rows name, for reading them.
#[derive(Debug, Default)]
pub(super) struct Texts(BTreeMap<i64, Vec<u8>>);

impl Texts {
    /// Reads the samples of these numbers.
    pub(super) async fn read(
        connection: &mut PgConnection,
        numbers: impl Iterator<Item = i64>,
    ) -> Result<Self, StoreError> {
        let mut numbers: Vec<i64> = numbers.collect();
        numbers.sort_unstable();
        numbers.dedup();
        if numbers.is_empty() {
            return Ok(Self::default());
        }
        let rows = sqlx::query!("SELECT number, bytes FROM samples WHERE number = ANY($1)", &numbers);
        let rows = rows.fetch_all(connection).await.map_err(database("read samples of its rows"))?;
        let read = rows.into_iter().filter_map(|row| Some((row.number, packed::unpack(&[], &row.bytes)?)));
        Ok(Self(read.collect()))
    }

    /// The text that a row holds; `what` says what is read, for the error.
    pub(super) fn unpack(&self, what: &'static str, packed: &Packed) -> Result<Vec<u8>, StoreError> {
        let sample = match packed.sample {
            Some(number) => self.0.get(&number).map(Vec::as_slice),
            None => Some(&[][..]),
        };
        sample.and_then(|sample| packed::unpack(sample, &packed.bytes)).ok_or_else(|| StoreError::Unreadable {
            what,
            found: match packed.sample {
                Some(number) => format!("{} bytes that do not follow sample {number}", packed.bytes.len()),
                None => format!("{} bytes that are no packed text", packed.bytes.len()),
            },
        })
    }
}
