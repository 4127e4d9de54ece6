//! Wait for an instance to become ready.

use std::time::Duration;

use tokio::time::{Instant, sleep, timeout_at};

use super::{Instance, InstanceError};
use crate::oip::{OipClient, OipError};

/// Interval between requests for readiness; a start takes seconds.
const ASK_EVERY: Duration = Duration::from_millis(50);

impl Instance {
    /// Waits until server and model are ready.
    ///
    /// # Errors
    ///
    /// Fails at once if the instance ends, and after `within` if it is not ready.
    pub(crate) async fn ready(
        &mut self,
        client: &OipClient,
        within: Duration,
    ) -> Result<(), InstanceError> {
        let deadline = Instant::now() + within;
        let mut last = OipError::Silent;
        let waited = tokio::select! {
            waited = timeout_at(deadline, until_ready(client, &mut last)) => waited,
            error = self.ended("starting") => return Err(error),
        };
        waited.map_err(|_| InstanceError::NotReady {
            within,
            last: Box::new(last),
            log: self.log(),
        })
    }
}

async fn until_ready(client: &OipClient, last: &mut OipError) {
    loop {
        match client.ready().await {
            Ok(()) => return,
            Err(error) => *last = error,
        }
        sleep(ASK_EVERY).await;
    }
}
