//! A temporary folder, deleted when the test ends.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A temporary folder for one test.
#[derive(Debug)]
pub struct TempDir {
    path: PathBuf,
}

impl TempDir {
    /// Creates an empty folder.
    ///
    /// # Panics
    /// When it cannot be created.
    #[must_use]
    pub fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("fleetwright-e2e-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).expect("a folder in the temporary directory");
        Self { path }
    }

    /// Writes a file and returns its path as text.
    ///
    /// # Panics
    /// When it cannot be written.
    #[must_use]
    pub fn write_file(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        let path = self.path.join(name);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).expect("a folder inside the folder");
        }
        fs::write(&path, content).expect("a file inside the folder");
        path.display().to_string()
    }

    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Default for TempDir {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _gone_already = fs::remove_dir_all(&self.path);
    }
}
