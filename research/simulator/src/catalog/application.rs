//! The paper's applications as stages of functions.

use serde::Serialize;

use super::model::{
    DSSM, FASTSPEECH2, LSTM, PaperModel, RESNET152, SSD, STT, TEXTCNN, USE, USE_QA,
};

/// The four applications of the paper.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Application {
    /// Second-hand vehicle trading: SSD finds objects, and one of two Resnet152 classifies cars or
    /// motorcycles. Their shares are assumed.
    #[serde(rename = "SVT")]
    Svt,
    /// Audio question answering: Stt, then Use-qa, then Fastspeech2.
    #[serde(rename = "QA-Audio")]
    QaAudio,
    /// Semantic similarity: Use.
    #[serde(rename = "SS")]
    Ss,
    /// Text question answering: Textcnn69, then Lstm, then Dssm. The order is assumed.
    #[serde(rename = "QA-Text")]
    QaText,
}

/// A model, and the name of its variant, or an empty string.
pub(super) type Part = (PaperModel, &'static str);

impl Application {
    /// All applications.
    pub const ALL: [Self; 4] = [Self::Svt, Self::QaAudio, Self::Ss, Self::QaText];

    /// Name of the application in the paper.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Svt => "SVT",
            Self::QaAudio => "QA-Audio",
            Self::Ss => "SS",
            Self::QaText => "QA-Text",
        }
    }

    /// Stages in order. A request goes to one function of each stage.
    pub fn stages(self) -> &'static [&'static [Part]] {
        match self {
            Self::Svt => &[
                &[(SSD, "")],
                &[(RESNET152, "cars"), (RESNET152, "motorcycles")],
            ],
            Self::QaAudio => &[&[(STT, "")], &[(USE_QA, "")], &[(FASTSPEECH2, "")]],
            Self::Ss => &[&[(USE, "")]],
            Self::QaText => &[&[(TEXTCNN, "")], &[(LSTM, "")], &[(DSSM, "")]],
        }
    }
}
