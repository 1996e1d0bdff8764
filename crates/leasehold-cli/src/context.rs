//! What every client command is given: its settings and a client.

use leasehold_client::http::{Error, HttpClient};
use serde::Serialize;

use crate::args::Globals;
use crate::failure::Failure;
use crate::output::{self, Output};
use crate::settings::Settings;

/// Settings and a client made from them.
#[derive(Clone, Debug)]
pub(crate) struct Context {
    pub(crate) settings: Settings,
    pub(crate) client: HttpClient,
}

impl Context {
    /// The context of these flags and the process's environment.
    pub(crate) fn new(flags: &Globals) -> Result<Context, Failure> {
        let settings = Settings::new(flags, |name| std::env::var_os(name))?;
        let client = HttpClient::new(settings.endpoints.clone(), settings.namespace.clone());
        Ok(Context { settings, client })
    }

    /// Shows one thing in the way that was asked for.
    pub(crate) fn show<T: Serialize>(
        &self,
        value: &T,
        name: impl FnOnce(&T) -> String,
        human: impl FnOnce(&T) -> String,
    ) -> Result<(), Failure> {
        show(self.settings.output, value, name, human)
    }

    /// Shows a list in the way that was asked for; as one document it is named as in the HTTP API.
    pub(crate) fn show_list<T: Serialize>(
        &self,
        title: &str,
        items: &[T],
        name: impl Fn(&T) -> String,
        human: impl FnOnce(&[T]) -> String,
    ) -> Result<(), Failure> {
        show_list(self.settings.output, title, items, name, human)
    }
}

/// Shows one thing as `output` says.
pub(crate) fn show<T: Serialize>(
    output: Output,
    value: &T,
    name: impl FnOnce(&T) -> String,
    human: impl FnOnce(&T) -> String,
) -> Result<(), Failure> {
    match output {
        Output::Human => output::lines(human(value))?,
        Output::Json => output::json(value)?,
        Output::Jsonl => output::json_line(value)?,
        Output::Name => output::lines(name(value))?,
    }
    Ok(())
}

/// Shows a list as `output` says.
pub(crate) fn show_list<T: Serialize>(
    output: Output,
    title: &str,
    items: &[T],
    name: impl Fn(&T) -> String,
    human: impl FnOnce(&[T]) -> String,
) -> Result<(), Failure> {
    match output {
        Output::Human => output::lines(human(items))?,
        Output::Json => output::json(&serde_json::json!({ title: items }))?,
        Output::Jsonl => items.iter().try_for_each(output::json_line)?,
        Output::Name => {
            output::lines(items.iter().map(name).fold(String::new(), |text, name| text + &name + "\n"))?;
        }
    }
    Ok(())
}

/// All parts of a list.
pub(crate) async fn all_pages<T>(
    mut part: impl AsyncFnMut(Option<&str>) -> Result<(Vec<T>, Option<String>), Error>,
) -> Result<Vec<T>, Error> {
    let (mut all, mut next) = part(None).await?;
    while let Some(page) = next {
        let (items, after) = part(Some(&page)).await?;
        all.extend(items);
        // A page that leads to itself would never end.
        next = after.filter(|after| *after != page);
    }
    Ok(all)
}
