//! Statements that nobody answers. A line that is cut without a sign, or a server whose host is gone, leaves a
//! connection on which an answer is waited for until the kernel gives up, a quarter of an hour later: callers would
//! wait past their bound, and a rotated token would not be tried on another connection. So a statement is given up after
//! a while, and with it every connection that was made before: they most likely lead to the same place.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use holdfast_core::ports::Clock;
use sea_orm::{
    ConnectionTrait, DatabaseConnection, DatabaseTransaction, DbBackend, DbErr, ExecResult, QueryResult, RuntimeErr,
    Statement, TransactionOptions, TransactionTrait as _,
};
use sqlx::{Connection as _, Postgres, pool::PoolOptions};

/// No statement of ours works for longer. Short enough that a replica whose connections have all gone silent gives its
/// next sign of life before others take it for dead.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

const NEVER: u64 = 0;

/// When a statement was last given up.
pub(crate) struct Patience {
    clock: Arc<dyn Clock>,
    /// By our uptime in milliseconds.
    given_up_ms: AtomicU64,
}

impl Patience {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Arc<Self> {
        Arc::new(Self { clock, given_up_ms: AtomicU64::new(NEVER) })
    }

    /// Makes the pool throw away the connections that are not trusted any more: when they come back, and before they
    /// are used again. One that answers nothing cannot even be asked whether it lives, so that comes first; then one
    /// that rested for `test_after` is tried.
    pub(crate) fn watch(self: &Arc<Self>, pool: PoolOptions<Postgres>, test_after: Duration) -> PoolOptions<Postgres> {
        let (coming, going) = (Arc::clone(self), Arc::clone(self));
        pool.test_before_acquire(false)
            .after_release(move |_, about| {
                let trusted = coming.trusts(about.age);
                Box::pin(async move { Ok(trusted) })
            })
            .before_acquire(move |connection, about| {
                let trusted = going.trusts(about.age);
                Box::pin(async move {
                    if trusted && about.idle_for >= test_after {
                        connection.ping().await?;
                    }
                    Ok(trusted)
                })
            })
    }

    fn trusts(&self, age: Duration) -> bool {
        let given_up = self.given_up_ms.load(Ordering::Acquire);
        given_up == NEVER || ms(self.clock.uptime().saturating_sub(age)) > given_up
    }

    async fn with<T>(&self, work: impl Future<Output = Result<T, DbErr>>) -> Result<T, DbErr> {
        let mut work = std::pin::pin!(work);
        // Real time: this is about sockets, whatever a test's clock says.
        if let Ok(done) = tokio::time::timeout(PATIENCE, &mut work).await {
            return done;
        }
        // Before the connection goes back to the pool, with the end of `work`.
        self.given_up_ms.store(ms(self.clock.uptime()).max(1), Ordering::Release);
        let words = format!("the database did not answer within {} s", PATIENCE.as_secs());
        Err(DbErr::Conn(RuntimeErr::Internal(words)))
    }
}

fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// What statements run on, with the patience that it takes; `None` on SQLite, which is no line away.
pub(crate) struct Patient<C> {
    on: C,
    patience: Option<Arc<Patience>>,
}

impl<C> Patient<C> {
    pub(crate) fn new(on: C, patience: Option<Arc<Patience>>) -> Self {
        Self { on, patience }
    }

    /// For work that may take long: migrations.
    pub(crate) fn unhurried(&self) -> &C {
        &self.on
    }

    async fn with<T>(&self, work: impl Future<Output = Result<T, DbErr>>) -> Result<T, DbErr> {
        bounded(self.patience.as_deref(), work).await
    }
}

async fn bounded<T>(patience: Option<&Patience>, work: impl Future<Output = Result<T, DbErr>>) -> Result<T, DbErr> {
    match patience {
        Some(patience) => patience.with(work).await,
        None => work.await,
    }
}

impl Patient<DatabaseConnection> {
    pub(crate) async fn begin(&self, options: TransactionOptions) -> Result<Patient<DatabaseTransaction>, DbErr> {
        let on = self.with(self.on.begin_with_options(options)).await?;
        Ok(Patient { on, patience: self.patience.clone() })
    }

    pub(crate) async fn ping(&self) -> Result<(), DbErr> {
        Box::pin(self.with(self.on.ping())).await
    }
}

impl Patient<DatabaseTransaction> {
    pub(crate) async fn commit(self) -> Result<(), DbErr> {
        bounded(self.patience.as_deref(), self.on.commit()).await
    }

    pub(crate) async fn rollback(self) -> Result<(), DbErr> {
        bounded(self.patience.as_deref(), self.on.rollback()).await
    }
}

#[async_trait]
impl<C: ConnectionTrait + Send> ConnectionTrait for Patient<C> {
    fn get_database_backend(&self) -> DbBackend {
        self.on.get_database_backend()
    }

    async fn execute_raw(&self, statement: Statement) -> Result<ExecResult, DbErr> {
        self.with(self.on.execute_raw(statement)).await
    }

    async fn execute_unprepared(&self, sql: &str) -> Result<ExecResult, DbErr> {
        self.with(self.on.execute_unprepared(sql)).await
    }

    async fn query_one_raw(&self, statement: Statement) -> Result<Option<QueryResult>, DbErr> {
        self.with(self.on.query_one_raw(statement)).await
    }

    async fn query_all_raw(&self, statement: Statement) -> Result<Vec<QueryResult>, DbErr> {
        self.with(self.on.query_all_raw(statement)).await
    }
}

#[cfg(test)]
mod tests {
    use chrono::{DateTime, Utc};

    use super::*;

    struct Paused(tokio::time::Instant);

    #[async_trait]
    impl Clock for Paused {
        fn now(&self) -> DateTime<Utc> {
            DateTime::UNIX_EPOCH
        }

        fn uptime(&self) -> Duration {
            Duration::from_mins(1) + self.0.elapsed()
        }

        async fn sleep(&self, _duration: Duration) {}
    }

    #[expect(clippy::disallowed_methods, reason = "paused time has its home here")]
    fn patience() -> Arc<Patience> {
        Patience::new(Arc::new(Paused(tokio::time::Instant::now())))
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_answered_in_time_costs_no_connection() {
        let patience = patience();

        let answered = patience.with(async { Ok::<_, DbErr>(7) }).await;

        assert_eq!(answered, Ok(7));
        assert!(patience.trusts(Duration::from_secs(30)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_statement_that_goes_unanswered_is_given_up_with_the_connections_of_its_time() {
        let patience = patience();

        let given_up = patience.with(std::future::pending::<Result<(), DbErr>>()).await;
        let age = Duration::from_millis(10);
        let (of_its_time, just_made) = (patience.trusts(age), patience.trusts(Duration::ZERO));
        tokio::time::advance(age * 2).await;

        assert_eq!(given_up.unwrap_err().to_string(), "Connection Error: the database did not answer within 5 s");
        assert!(!of_its_time);
        assert!(!just_made, "it was made in the same millisecond");
        assert!(patience.trusts(age));
        assert!(!patience.trusts(age * 3));
    }
}
