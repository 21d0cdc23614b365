//! Interning of pod shapes across clusters: equal content is decoded once per server.
//!
//! Contents are compared in full. Hashes identify them only within one stream, so no cluster can
//! substitute a shape of another cluster.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use rustc_hash::FxHashMap;

use super::decode::shape::DecodedShape;

/// Minimum number of entries before unused ones are swept; doubles with the number in use.
const FIRST_SWEEP: usize = 1_024;

/// All pod shapes that a session refers to.
#[derive(Debug, Default)]
pub struct Interner {
    shapes: Mutex<Shapes>,
}

#[derive(Debug, Default)]
struct Shapes {
    /// Looked up, never iterated in an order that matters.
    by_content: FxHashMap<Vec<u8>, Weak<DecodedShape>>,
    sweep_at: usize,
}

impl Interner {
    /// Decoded shape for `content`; calls `read` when no session has it.
    ///
    /// # Errors
    /// Those of `read`.
    pub fn shape<E>(
        &self,
        content: Vec<u8>,
        read: impl FnOnce(&[u8]) -> Result<DecodedShape, E>,
    ) -> Result<Arc<DecodedShape>, E> {
        let known = self.lock().by_content.get(&content).and_then(Weak::upgrade);
        if let Some(known) = known {
            return Ok(known);
        }
        // Two sessions may decode the same content concurrently; the later result replaces an equal
        // one.
        let reading = Arc::new(read(&content)?);
        let mut shapes = self.lock();
        shapes.by_content.insert(content, Arc::downgrade(&reading));
        shapes.sweep();
        Ok(reading)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Shapes> {
        // Every change is a single insertion or sweep, so a poisoned lock still guards a consistent
        // map.
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
    use crate::decode::shape;

    #[test]
    fn equal_contents_are_decoded_once_while_in_use() {
        let interner = Interner::default();
        let mut reads = 0;
        let mut intern = |content: &[u8]| {
            let reading = interner.shape(content.to_vec(), |bytes| {
                reads += 1;
                shape::read(bytes)
            });
            (reading.unwrap(), reads)
        };
        let (first, count) = intern(b"{}");
        assert_eq!(count, 1);
        let (second, count) = intern(b"{}");
        assert_eq!(count, 1);
        assert!(Arc::ptr_eq(&first, &second));
        drop((first, second));
        assert_eq!(intern(b"{}").1, 2);
    }

    #[test]
    fn unused_shapes_are_swept() {
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
        format!(r#"{{"spec":{{"priority":{priority}}}}}"#).into_bytes()
    }
}
