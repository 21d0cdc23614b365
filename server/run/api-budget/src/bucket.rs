//! A token bucket with priority lanes and a learned rate.

use model::{Millis, PriorityLane, Timestamp};

use crate::limit::{Limit, TOKEN};
use crate::waiting::Waiting;

const LANES: usize = PriorityLane::ALL.len();

/// Part of the refill that each lower lane with waiting calls keeps.
pub const FLOOR_DIVISOR: i64 = 10;

/// Time for which a lane keeps the part of the refill that it has not taken yet; at least a token is kept. A replica asks
/// at least once in [`LONGEST_WAIT`].
const FLOOR_KEPT_MS: i64 = 5_000;

/// Longest time after which a replica with waiting calls asks again: its waiting calls are those of a live replica, and a
/// token that another one leaves is taken.
const LONGEST_WAIT: Millis = Millis::from_secs(1);

/// Throttled calls within this time of a halving say nothing new: they were sent before it.
const HALVING_INTERVAL: Millis = Millis::from_secs(1);

/// Part of the limit's refill that each granted token adds to the learned rate.
const INCREASE_DIVISOR: i64 = 200;

/// Part of the limit's refill below which the learned rate does not fall.
const LOWEST_DIVISOR: i64 = 20;

/// Longest time that is refilled at once; every bucket is full after it.
const LONGEST_REFILL: Millis = Millis::from_hours(1);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bucket(BucketRow);

/// The values of a bucket, for its row. Levels are millionths of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BucketRow {
    pub level: i64,
    /// What each lane has kept of the refill, in the order of [`PriorityLane::ALL`].
    pub kept: [i64; LANES],
    /// Learned rate, in thousandths of a token per second.
    pub rate: i64,
    /// Time up to which it is refilled.
    pub at: Timestamp,
    /// Last time at which a throttled call halved the rate.
    pub throttled: Option<Timestamp>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grant {
    /// Tokens by lane, in the order of [`PriorityLane::ALL`].
    pub tokens: [u32; LANES],
    /// When to ask again; `None` when nothing waits any more.
    pub ask_again: Option<Millis>,
}

/// Calls of one lane, as a grant to one replica divides tokens among them.
struct Shares {
    mine: u32,
    all: i64,
    /// Other replicas with an older waiting call.
    older: i64,
}

impl Shares {
    fn of(lane: PriorityLane, mine: &Waiting, others: &[Waiting]) -> Self {
        let own = mine.lane(lane);
        let others = others.iter().map(|other| other.lane(lane)).filter(|other| other.count > 0);
        let (mut all, mut older) = (i64::from(own.count), 0);
        for other in others {
            all += i64::from(other.count);
            older += i64::from(other.since < own.since);
        }
        Self { mine: own.count, all, older }
    }
}

impl Bucket {
    /// A bucket that nobody has used yet.
    #[must_use]
    pub fn new(limit: Limit, now: Timestamp) -> Self {
        let level = limit.first_level();
        Self(BucketRow { level, kept: [0; LANES], rate: limit.refill(), at: now, throttled: None })
    }

    /// A full bucket, for a process that shares no store with others.
    #[must_use]
    pub fn full(limit: Limit, now: Timestamp) -> Self {
        let mut bucket = Self::new(limit, now);
        bucket.0.level = limit.full_level(bucket.0.rate);
        bucket
    }

    #[must_use]
    pub fn from_row(row: BucketRow) -> Self {
        Self(row)
    }

    #[must_use]
    pub fn row(&self) -> &BucketRow {
        &self.0
    }

    /// A bucket with this learned rate.
    #[must_use]
    pub fn with_rate(mut self, rate: i64, limit: Limit) -> Self {
        self.0.rate = rate.clamp(lowest_rate(limit), limit.refill());
        self
    }

    /// Takes tokens for the calls that wait at one replica, while those of `others` wait as well.
    pub fn grant(&mut self, limit: Limit, mine: &Waiting, others: &[Waiting], now: Timestamp) -> Grant {
        let shares = PriorityLane::ALL.map(|lane| Shares::of(lane, mine, others));
        self.refill(limit, &shares, now);
        let tokens = self.take(&shares);
        let granted: i64 = tokens.iter().copied().map(i64::from).sum();
        let increase = granted.saturating_mul((limit.refill() / INCREASE_DIVISOR).max(1));
        self.0.rate = self.0.rate.saturating_add(increase).min(limit.refill());
        Grant { tokens, ask_again: self.next_token(&shares, &tokens) }
    }

    /// Records that EC2 throttled a call: its bucket is empty, and refills at a lower rate than was known. Returns whether
    /// the rate was halved.
    pub fn record_throttle(&mut self, limit: Limit, now: Timestamp) -> bool {
        let row = &mut self.0;
        (row.level, row.kept, row.at) = (0, [0; LANES], row.at.max(now));
        if row.throttled.is_some_and(|last| now.duration_since(last) < HALVING_INTERVAL) {
            return false;
        }
        row.rate = (row.rate / 2).max(lowest_rate(limit));
        row.throttled = Some(now);
        true
    }

    /// Adds what has returned since the last time: a part for each lower lane with waiting calls, the rest for all.
    fn refill(&mut self, limit: Limit, shares: &[Shares; LANES], now: Timestamp) {
        let row = &mut self.0;
        // The known limit may have been raised or lowered.
        row.rate = row.rate.clamp(lowest_rate(limit), limit.refill());
        let elapsed = now.duration_since(row.at).min(LONGEST_REFILL).get();
        row.at = row.at.max(now);
        let (added, full) = (row.rate.saturating_mul(elapsed), limit.full_level(row.rate));
        let (floor, most) = (added / FLOOR_DIVISOR, most_kept(row.rate));
        let mut rest = added;
        for (kept, lane) in row.kept.iter_mut().zip(shares).filter(|(_, lane)| lane.all == 0) {
            debug_assert_eq!(lane.mine, 0, "a replica's own calls are among all");
            rest += std::mem::take(kept);
        }
        let lower = row.kept.iter_mut().zip(shares).filter(|(_, lane)| lane.all > 0).skip(1);
        for (kept, _) in lower {
            let more = floor.min((most - *kept).max(0));
            *kept += more;
            rest -= more;
        }
        let kept: i64 = row.kept.iter().sum();
        row.level = row.level.saturating_add(rest).min((full - kept).max(0));
    }

    /// Takes whole tokens, lane by lane. What calls of other replicas are entitled to stays.
    fn take(&mut self, shares: &[Shares; LANES]) -> [u32; LANES] {
        let row = &mut self.0;
        let mut free = row.level;
        let mut tokens = [0; LANES];
        for (index, lane) in shares.iter().enumerate().filter(|(_, lane)| lane.all > 0) {
            let there = (free + row.kept[index]) / TOKEN;
            let is_enough = there >= lane.all;
            let given = if is_enough { lane.mine } else { lane.mine.min(count(there - lane.older)) };
            // Lower lanes get what this one leaves when all of its calls are served.
            free = if is_enough { free - (lane.all * TOKEN - row.kept[index]).max(0) } else { 0 };
            let taken = i64::from(given) * TOKEN;
            let of_kept = taken.min(row.kept[index]);
            row.kept[index] -= of_kept;
            row.level -= taken - of_kept;
            tokens[index] = given;
        }
        tokens
    }

    /// Time until the next token of a lane in which calls of this replica still wait.
    fn next_token(&self, shares: &[Shares; LANES], tokens: &[u32; LANES]) -> Option<Millis> {
        let row = &self.0;
        let waits = |index: usize| shares[index].all > i64::from(tokens[index]);
        let highest = (0..LANES).find(|index| waits(*index))?;
        let lower = (0..LANES).filter(|index| waits(*index)).count().saturating_sub(1);
        let floor = row.rate / FLOOR_DIVISOR;
        let rest = row.rate - floor * i64::try_from(lower).unwrap_or(0);
        let mine = (0..LANES).filter(|index| shares[*index].mine > tokens[*index]);
        let waits = mine.map(|index| {
            let (there, rate) =
                if index == highest { (row.level + row.kept[index], rest) } else { (row.kept[index], floor) };
            let older = if index == highest { shares[index].older } else { 0 };
            let missing = ((1 + older) * TOKEN - there).max(1);
            Millis::new((missing + rate.max(1) - 1) / rate.max(1))
        });
        waits.min().map(|wait| wait.min(LONGEST_WAIT))
    }
}

fn lowest_rate(limit: Limit) -> i64 {
    (limit.refill() / LOWEST_DIVISOR).max(1)
}

fn most_kept(rate: i64) -> i64 {
    (rate / FLOOR_DIVISOR).saturating_mul(FLOOR_KEPT_MS).max(TOKEN)
}

fn count(tokens: i64) -> u32 {
    u32::try_from(tokens.max(0)).unwrap_or(u32::MAX)
}
