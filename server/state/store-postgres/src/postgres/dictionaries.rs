//! Compression dictionaries for rows.
//!
//! Launches and decisions of a cluster resemble earlier ones, and those of clusters with similar
//! pools. A row without a good match becomes a dictionary: an immutable row of its own. Later rows
//! are compressed with it ([`compression`](store::compression)) and reference it by number.
//!
//! A process knows only the dictionaries that it created, so a restart costs a few new dictionaries
//! and no search. The database may have lost its last commits, and with them dictionaries: each
//! write verifies its dictionaries in its own transaction, by number and by content, since a lost
//! number is reassigned. Pruning deletes dictionaries whose last use is older than the retention of
//! decisions and that no launch references; a process updates the last use twice a day.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};
use sqlx::postgres::{PgConnection, PgPool};

use super::conversion::database;
use store::compression::{self, MAX_WITH_DICTIONARY};
use store::lease::Scope;
use store::{StoreError, StoreResult};

/// Interval of last-use updates: far shorter than the retention of dictionaries.
const TOUCH_INTERVAL: Duration = Duration::from_secs(12 * 3600);

/// Dictionaries per scope and row kind: decisions launch several instance sizes, each with its own
/// options.
const MAX_PER_SCOPE: usize = 4;

/// Shared dictionaries per row kind, for scopes without a good match.
const MAX_SHARED: usize = 8;

/// Dictionaries that a scope may create per period: texts that never match then cost little more
/// than their own bytes.
const CREATION_LIMIT: (usize, Duration) = (MAX_PER_SCOPE, Duration::from_secs(3600));

/// A match is good when the compressed text takes at most this fraction of the dictionary's own
/// compressed size.
const MIN_RATIO: usize = 3;

/// Below this compressed size, in bytes, a text creates no dictionary when another exists, however
/// bad the match.
const MIN_DICTIONARY_BYTES: usize = 512;

/// Kinds of rows that share dictionaries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum RowKind {
    /// Launch orders.
    Launch,
    Plan,
    /// Decisions without a plan.
    Text,
}

/// A compressed text as read from a row.
#[derive(Debug, Default)]
pub(super) struct StoredText {
    pub(super) sample: Option<i64>,
    pub(super) bytes: Vec<u8>,
}

/// A compressed text to be written, once its dictionary is
/// [verified](Dictionaries::verify).
#[derive(Debug)]
pub(super) struct CompressedText {
    sample: Option<Arc<Dictionary>>,
    pub(super) bytes: Vec<u8>,
}

impl CompressedText {
    pub(super) fn dictionary_number(&self) -> Option<i64> {
        self.sample.as_ref().map(|sample| sample.number)
    }

    fn without_dictionary(text: &[u8]) -> Self {
        Self { sample: None, bytes: compression::compress(&[], text) }
    }

    fn with_dictionary(sample: &Arc<Dictionary>, text: &[u8]) -> Self {
        Self { sample: Some(Arc::clone(sample)), bytes: compression::compress(&sample.text, text) }
    }
}

#[derive(Debug, Default)]
pub(super) struct Dictionaries(Mutex<KnownDictionaries>);

#[derive(Debug, Default)]
struct KnownDictionaries {
    /// By scope and kind, the most recently used one last.
    own: BTreeMap<(Scope, RowKind), Vec<Arc<Dictionary>>>,
    shared: BTreeMap<RowKind, VecDeque<Arc<Dictionary>>>,
}

#[derive(Debug)]
struct Dictionary {
    number: i64,
    text: Vec<u8>,
    /// SHA-256 of the stored bytes.
    hash: [u8; 32],
    /// Compressed size without a dictionary.
    alone: usize,
    made: Instant,
    touched: Mutex<Instant>,
}

/// A dictionary with the text compressed by it; the smallest result wins.
type BestMatch = (Arc<Dictionary>, CompressedText);

fn best_match(text: &[u8], samples: impl Iterator<Item = Arc<Dictionary>>) -> Option<BestMatch> {
    let fits = samples.map(|sample| {
        let compressed = CompressedText::with_dictionary(&sample, text);
        (sample, compressed)
    });
    fits.min_by_key(|(_, compressed)| compressed.bytes.len())
}

fn is_good_match((sample, compressed): &BestMatch) -> bool {
    compressed.bytes.len() * MIN_RATIO <= sample.alone
}

impl Dictionaries {
    /// Compresses `text` for a row of `scope`. A new dictionary is committed before the row that
    /// uses it.
    pub(super) async fn compress(
        &self,
        pool: &PgPool,
        scope: &Scope,
        kind: RowKind,
        text: &[u8],
    ) -> StoreResult<CompressedText> {
        if text.len() > MAX_WITH_DICTIONARY {
            return Ok(CompressedText::without_dictionary(text));
        }
        let key = (scope.clone(), kind);
        let own = self.own(&key);
        let young = own.iter().filter(|sample| sample.made.elapsed() < CREATION_LIMIT.1).count();
        let mut found = best_match(text, own.into_iter());
        if !found.as_ref().is_some_and(is_good_match) {
            found = best_match(text, self.shared(kind).into_iter().chain(found.map(|(own, _)| own)));
        }
        match found {
            Some(fit) if is_good_match(&fit) || fit.0.alone < MIN_DICTIONARY_BYTES || young >= CREATION_LIMIT.0 => {
                touch(pool, &fit.0).await?;
                self.mark_used(&key, &fit.0);
                Ok(shorter_encoding(text, fit))
            }
            _ => {
                let sample = Arc::new(insert(pool, text).await?);
                self.share(kind, &sample);
                self.mark_used(&key, &sample);
                Ok(CompressedText::with_dictionary(&sample, text))
            }
        }
    }

    /// Verifies, in the transaction that writes them, that the texts can be read back. A database
    /// that lost its last commits (asynchronous commit, a lagging standby) lacks dictionaries known
    /// here, or reuses their numbers: those are forgotten, and the caller compresses again.
    pub(super) async fn verify<'p>(
        &self,
        connection: &mut PgConnection,
        compressed: impl Iterator<Item = &'p CompressedText>,
    ) -> StoreResult<()> {
        const WHAT: &str = "verify the compression dictionaries";
        let followed: BTreeMap<i64, Vec<u8>> = compressed
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
        lost.iter().for_each(|number| self.forget(*number));
        let Some(number) = lost.first() else { return Ok(()) };
        let why = format!("dictionary {number} was committed and is missing: the database has lost commits");
        Err(database(WHAT)(sqlx::Error::Io(io::Error::new(io::ErrorKind::NotFound, why))))
    }

    fn lock(&self) -> MutexGuard<'_, KnownDictionaries> {
        // Every change is one step, so a poisoned lock holds valid data.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn own(&self, key: &(Scope, RowKind)) -> Vec<Arc<Dictionary>> {
        self.lock().own.get(key).cloned().unwrap_or_default()
    }

    fn shared(&self, kind: RowKind) -> VecDeque<Arc<Dictionary>> {
        self.lock().shared.get(&kind).cloned().unwrap_or_default()
    }

    /// Moves the dictionary to the end of the scope's list and drops the oldest beyond the limit.
    fn mark_used(&self, key: &(Scope, RowKind), sample: &Arc<Dictionary>) {
        let mut known = self.lock();
        let own = known.own.entry(key.clone()).or_default();
        own.retain(|kept| kept.number != sample.number);
        own.push(Arc::clone(sample));
        if own.len() > MAX_PER_SCOPE {
            own.remove(0);
        }
    }

    fn share(&self, kind: RowKind, sample: &Arc<Dictionary>) {
        let mut known = self.lock();
        let shared = known.shared.entry(kind).or_default();
        shared.push_back(Arc::clone(sample));
        if shared.len() > MAX_SHARED {
            shared.pop_front();
        }
    }

    fn forget(&self, number: i64) {
        let mut known = self.lock();
        known.own.values_mut().for_each(|own| own.retain(|sample| sample.number != number));
        known.shared.values_mut().for_each(|shared| shared.retain(|sample| sample.number != number));
    }
}

async fn insert(pool: &PgPool, text: &[u8]) -> StoreResult<Dictionary> {
    let bytes = compression::compress(&[], text);
    let made = sqlx::query_scalar!("INSERT INTO samples (bytes) VALUES ($1) RETURNING number", bytes);
    let number = made.fetch_one(pool).await.map_err(database("write a compression dictionary"))?;
    let (now, hash) = (Instant::now(), Sha256::digest(&bytes).into());
    Ok(Dictionary { number, text: text.to_vec(), hash, alone: bytes.len(), made: now, touched: Mutex::new(now) })
}

/// Updates the last use of a dictionary at intervals.
async fn touch(pool: &PgPool, sample: &Dictionary) -> StoreResult<()> {
    if sample.touched.lock().unwrap_or_else(PoisonError::into_inner).elapsed() < TOUCH_INTERVAL {
        return Ok(());
    }
    let touched = sqlx::query!("UPDATE samples SET used_at = now() WHERE number = $1", sample.number);
    touched.execute(pool).await.map_err(database("update a compression dictionary"))?;
    *sample.touched.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    Ok(())
}

fn shorter_encoding(text: &[u8], fit: BestMatch) -> CompressedText {
    if is_good_match(&fit) {
        return fit.1;
    }
    let alone = CompressedText::without_dictionary(text);
    if alone.bytes.len() <= fit.1.bytes.len() { alone } else { fit.1 }
}

/// Contents of referenced dictionaries, for reading rows.
#[derive(Debug, Default)]
pub(super) struct DictionaryTexts(BTreeMap<i64, Vec<u8>>);

impl DictionaryTexts {
    /// Reads the dictionaries with these numbers.
    pub(super) async fn read(connection: &mut PgConnection, numbers: impl Iterator<Item = i64>) -> StoreResult<Self> {
        let mut numbers: Vec<i64> = numbers.collect();
        numbers.sort_unstable();
        numbers.dedup();
        if numbers.is_empty() {
            return Ok(Self::default());
        }
        let rows = sqlx::query!("SELECT number, bytes FROM samples WHERE number = ANY($1)", &numbers);
        let rows = rows.fetch_all(connection).await.map_err(database("read compression dictionaries"))?;
        let read = rows.into_iter().filter_map(|row| Some((row.number, compression::decompress(&[], &row.bytes)?)));
        Ok(Self(read.collect()))
    }

    /// Decompresses a row's text; `what` names the operation in the error.
    pub(super) fn decompress(&self, what: &'static str, packed: &StoredText) -> StoreResult<Vec<u8>> {
        let sample = match packed.sample {
            Some(number) => self.0.get(&number).map(Vec::as_slice),
            None => Some(&[][..]),
        };
        sample.and_then(|sample| compression::decompress(sample, &packed.bytes)).ok_or_else(|| StoreError::Unreadable {
            what,
            found: match packed.sample {
                Some(number) => format!("{} bytes that do not match dictionary {number}", packed.bytes.len()),
                None => format!("{} bytes that are no compressed text", packed.bytes.len()),
            },
        })
    }
}
