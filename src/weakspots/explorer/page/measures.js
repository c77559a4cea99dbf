// The few quantities that the page computes itself, from counts of correct answers: accuracies, folds, changes.

const lookup = (model, padding) => data.lookups[`${model}/${padding}`];
const knockout = (model, padding) => data.knockouts[`${model}/${padding}`];

/** Accuracy in percent by position from counts of correct answers out of n. */
const accuracies = (correct, n) => correct.map((count) => (100 * count) / n);

/** Mean over the positions that are congruent modulo the period. */
function fold(values, period) {
  const cycles = values.length / period;
  return range(period).map((phase) => range(cycles).reduce((sum, cycle) => sum + values[cycle * period + phase], 0) / cycles);
}

/** Change in percent of the clean accuracy; null, not judged, where the model hardly answers. Both are folded first. */
function changes(clean, knocked, period) {
  const [before, after] = [fold(clean, period), fold(knocked, period)];
  return before.map((value, at) => (value >= data.judgedFrom - 1e-9 ? (100 * (after[at] - value)) / value : null));
}

/** What positions are folded to: the stride; for full attention eight, or all of them where that is no divisor. */
function foldingPeriod(model) {
  return data.models[model].stride ?? (data.modulus % 8 ? data.modulus : 8);
}

const placeName = ([layer, head]) => (head < 0 ? `${layer} whole` : `${layer} · ${head}`);
const placeTitle = ([layer, head]) => (head < 0 ? `layer ${layer}, all heads` : `layer ${layer}, head ${head}`);

/** How close a published layer is to one's own is for the reader to judge: the paper's models have 28. */
const publishedLayers = (of, model) => Object.keys(data.published[of][model] ?? {}).sort((one, other) => one - other);
