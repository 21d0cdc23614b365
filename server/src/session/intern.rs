//! What many clusters share: pod shapes are read once for the whole server, however many agents send them.
//!
//! Contents are compared in full. Hashes name them within one conversation only, so no cluster can put a shape in another
//! one's place.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use rustc_hash::FxHashMap;

use super::decode::shape::ShapeReading;

/// Entries after which those that nobody uses any more are looked for; doubles with what is in use.
const FIRST_SWEEP: usize = 1_024;

/// All shapes that some session knows.
#[derive(Debug, Default)]
pub struct Interner {
    shapes: Mutex<Shapes>,
}

#[derive(Debug, Default)]
struct Shapes {
    /// Looked up, never iterated in an order that matters.
    by_content: FxHashMap<Vec<u8>, Weak<ShapeReading>>,
    sweep_at: usize,
}

impl Interner {
    /// The reading of `content`, made by `read` when no session has one.
    ///
    /// # Errors
    /// Those of `read`.
    pub fn shape<E>(
        &self,
        content: Vec<u8>,
        read: impl FnOnce(&[u8]) -> Result<ShapeReading, E>,
    ) -> Result<Arc<ShapeReading>, E> {
        let known = self.lock().by_content.get(&content).and_then(Weak::upgrade);
        if let Some(known) = known {
            return Ok(known);
        }
        // Two sessions may read the same content at one moment; the later one's reading stays, and both are equal.
        let reading = Arc::new(read(&content)?);
        let mut shapes = self.lock();
        shapes.by_content.insert(content, Arc::downgrade(&reading));
        shapes.sweep();
        Ok(reading)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Shapes> {
        // Every change is a single insertion or sweep, so a panic elsewhere leaves nothing half done.
        self.shapes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shapes {
    fn sweep(&mut self) {
        if self.by_content.len() >= self.sweep_at.max(FIRST_SWEEP) {
            self.by_content.retain(|_, reading| reading.strong_count() > 0);
            self.sweep_at = 2 * self.by_content.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::decode::shape;

    #[test]
    fn equal_contents_are_read_once_while_somebody_needs_them() {
        let interner = Interner::default();
        let mut reads = 0;
        let mut intern = |content: &[u8]| {
            let reading = interner.shape(content.to_vec(), |bytes| {
                reads += 1;
                shape::read(bytes)
            });
            (reading.unwrap(), reads)
        };
        let (first, count) = intern(b"");
        assert_eq!(count, 1);
        let (second, count) = intern(b"");
        assert_eq!(count, 1);
        assert!(Arc::ptr_eq(&first, &second));
        drop((first, second));
        assert_eq!(intern(b"").1, 2);
    }

    #[test]
    fn what_nobody_needs_is_swept_away() {
        let interner = Interner::default();
        let kept = interner.shape(encoded(0), shape::read).unwrap();
        for priority in 1..3_000 {
            drop(interner.shape(encoded(priority), shape::read).unwrap());
        }
        let held = interner.lock().by_content.len();
        assert!(held <= FIRST_SWEEP, "{held} entries are held for one shape in use");
        drop(kept);
    }

    fn encoded(priority: i32) -> Vec<u8> {
        use prost::Message;
        fleetwright_proto::v1::PodShape { priority, ..Default::default() }.encode_to_vec()
    }
}
