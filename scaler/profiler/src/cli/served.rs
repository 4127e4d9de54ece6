//! The state of a run over HTTP, for the operator that started it.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use axum::Router;
use axum::extract::State;
use axum::routing::get;
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;

use crate::model_profile::ModelProfileSpec;
use crate::session::{Event, SessionOutcome};

/// Path of the state.
pub const PROFILE_PATH: &str = "/profile";

/// State of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "camelCase")]
pub enum RunState {
    /// Configurations are measured.
    Measuring {
        /// Number of finished configurations.
        done: u64,
        /// Total number of configurations.
        of: u64,
        /// The current step.
        step: String,
    },
    /// The run has ended with a profile.
    Measured {
        /// The profile.
        profile: Box<ModelProfileSpec>,
        /// Number of configurations that could not be measured.
        failures: u64,
    },
}

/// The state of a run, with the server that shows it.
#[derive(Clone, Debug)]
pub(super) struct ServedState(Arc<Mutex<RunState>>);

impl ServedState {
    /// Serves the state of a run of `of` configurations, until the runtime ends.
    pub(super) async fn serve(address: SocketAddr, of: u64) -> Result<Self> {
        let state = Self(Arc::new(Mutex::new(RunState::Measuring {
            done: 0,
            of,
            step: "starting".to_owned(),
        })));
        let listener = TcpListener::bind(address)
            .await
            .with_context(|| format!("--serve: cannot listen on {address}"))?;
        let router = Router::new()
            .route(PROFILE_PATH, get(page))
            .with_state(state.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        Ok(state)
    }

    /// Notes an event of the run.
    pub(super) fn note(&self, event: &Event) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let RunState::Measuring { done, step, .. } = &mut *state {
            match event {
                Event::Measuring { place, .. } => *done = *place as u64,
                Event::Resumed { .. } | Event::Warning(_) => return,
                _ => {}
            }
            *step = event.to_string();
        }
    }

    /// Shows the profile.
    pub(super) fn finish(&self, outcome: &SessionOutcome) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = RunState::Measured {
            profile: Box::new(outcome.manifest().spec),
            failures: outcome.failures() as u64,
        };
    }
}

async fn page(State(state): State<ServedState>) -> axum::Json<RunState> {
    let state = state.0.lock().unwrap_or_else(PoisonError::into_inner);
    axum::Json(state.clone())
}
