//! Sessions of browsers.

use super::connection::{PostgresStore, commit};
use super::conversion::database;
use store::StoreResult;
use store::browser_sessions::{BrowserSessionRow, MAX_SESSIONS_PER_CLIENT};

const CREATE: &str = "store a browser session";
const READ: &str = "read a browser session";
const DELETE: &str = "delete a browser session";

impl PostgresStore {
    pub(super) async fn write_browser_session(&self, row: &BrowserSessionRow) -> StoreResult<()> {
        let mut transaction = self.begin(CREATE).await?;
        let written = sqlx::query!(
            "INSERT INTO browser_sessions (id_sha256, key_sha256, client, credential, expires_at)
             VALUES ($1, $2, $3, $4, to_timestamp($5::float8 / 1000)) ON CONFLICT DO NOTHING",
            &row.id_sha256,
            &row.key_sha256,
            row.client,
            row.credential,
            row.expires_ms as f64
        );
        written.execute(&mut *transaction).await.map_err(database(CREATE))?;
        let deleted = sqlx::query!(
            "DELETE FROM browser_sessions
             WHERE expires_at <= clock_timestamp()
                OR id_sha256 IN (SELECT id_sha256 FROM browser_sessions WHERE client = $1
                                 ORDER BY created_at DESC, id_sha256 OFFSET $2)",
            row.client,
            i64::try_from(MAX_SESSIONS_PER_CLIENT).unwrap_or(i64::MAX)
        );
        deleted.execute(&mut *transaction).await.map_err(database(CREATE))?;
        commit(transaction, CREATE).await
    }

    pub(super) async fn read_browser_session(&self, id_sha256: &[u8]) -> StoreResult<Option<BrowserSessionRow>> {
        let row = sqlx::query!(
            r#"SELECT id_sha256, key_sha256, client, credential, (extract(epoch FROM expires_at) * 1000)::bigint AS "expires_ms!"
               FROM browser_sessions WHERE id_sha256 = $1"#,
            id_sha256
        );
        let row = row.fetch_optional(&self.pool).await.map_err(database(READ))?;
        Ok(row.map(|row| BrowserSessionRow {
            id_sha256: row.id_sha256,
            key_sha256: row.key_sha256,
            client: row.client,
            credential: row.credential,
            expires_ms: row.expires_ms,
        }))
    }

    pub(super) async fn remove_browser_session(&self, id_sha256: &[u8]) -> StoreResult<()> {
        let deleted = sqlx::query!("DELETE FROM browser_sessions WHERE id_sha256 = $1", id_sha256);
        deleted.execute(&self.pool).await.map_err(database(DELETE))?;
        Ok(())
    }

    pub(super) async fn remove_browser_sessions_of(&self, client: &str, credential: &str) -> StoreResult<()> {
        let deleted =
            sqlx::query!("DELETE FROM browser_sessions WHERE client = $1 AND credential = $2", client, credential);
        deleted.execute(&self.pool).await.map_err(database(DELETE))?;
        Ok(())
    }
}
