// The sliders of the page's what-if: DsanalyzeWhatIf.mount(element, model). The equations are in whatif.js.
(function () {
  'use strict';

  const whatif = window.DsanalyzeWhatIf;
  const words = whatif.words;
  let mounted = 0;

  function make(tag, attributes, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) element.setAttribute(name, value);
    element.append(...children);
    return element;
  }

  // The value that lies nearest to what was measured.
  function nearest(slider) {
    let best = 0;
    slider.values.forEach((value, at) => {
      if (Math.abs(value - slider.measured) < Math.abs(slider.values[best] - slider.measured)) best = at;
    });
    return best;
  }

  function sliderRow(slider, model, id, changed) {
    const texts = words.sliders[slider.name];
    if (slider.values.length === 0) {
      const why = make('p', { class: 'whatif-absent muted' }, make('strong', {}, texts.label + ': '), slider.why_absent);
      return { element: why, value: () => null, reset: () => {} };
    }
    const start = nearest(slider);
    const input = make('input', {
      type: 'range', id: id, min: '0', max: String(slider.values.length - 1), step: '1', value: String(start), 'data-slider': slider.name, autocomplete: 'off',
    });
    const output = make('output', { for: id });
    let moved = false;
    const show = () => {
      const value = moved ? slider.values[Number(input.value)] : slider.measured;
      const text = texts.text(value, model) + (moved ? '' : ', as profiled');
      output.textContent = text;
      input.setAttribute('aria-valuetext', text);
    };
    input.addEventListener('input', () => {
      moved = true;
      show();
      changed();
    });
    show();
    return {
      element: make('div', { class: 'whatif-row' }, make('label', { for: id }, texts.label), input, output),
      value: () => (moved ? slider.values[Number(input.value)] : null),
      reset: () => {
        moved = false;
        input.value = String(start);
        show();
      },
    };
  }

  const parts = [['compute', 'Compute'], ['prep', 'Prep stall'], ['fetch', 'Fetch stall']];

  // An epoch's parts, side by side, with what they are.
  function epochBar() {
    const pieces = parts.map(([name]) => make('span', { class: name }));
    const shares = parts.map(() => make('strong'));
    const bar = make('div', { class: 'bar', 'aria-hidden': 'true' }, ...pieces);
    const legend = make('ul', { class: 'legend' }, ...parts.map(([name, label], at) =>
      make('li', {}, make('span', { class: 'key ' + name, 'aria-hidden': 'true' }), label + ' ', shares[at])));
    const element = make('div', { class: 'epoch' }, bar, legend);
    const show = (stalls) => {
      element.hidden = stalls === null;
      if (stalls === null) return;
      parts.forEach(([name], at) => {
        pieces[at].style.width = Math.max(0, stalls[name] * 100) + '%';
        shares[at].textContent = words.share(stalls[name]);
      });
    };
    return { element: element, show: show };
  }

  function rows(base, now) {
    const number = (value) => (value === null ? 'not known' : Number.isFinite(value) ? words.number(value) : 'no limit');
    const factor = (before, after) => (before === null || after === null || !Number.isFinite(after / before) ? '' : (after / before).toFixed(2) + 'x');
    const points = (before, after) => {
      const text = ((after - before) * 100).toFixed(1);
      return Number(text) === 0 ? 'none' : (after > before ? '+' : '') + text + ' points';
    };
    const rate = (label, name) => [label, number(base[name]), number(now[name]), factor(base[name], now[name])];
    const list = [
      rate('Samples/s', 'samples_per_s'),
      ['Time of an epoch', words.duration(base.epoch_seconds), words.duration(now.epoch_seconds), factor(base.epoch_seconds, now.epoch_seconds)],
      ['The bottleneck', words.resources[base.bottleneck], words.resources[now.bottleneck], base.bottleneck === now.bottleneck ? 'the same' : 'another'],
      rate('G: accelerators, samples/s', 'G'),
      rate('P: prep, samples/s', 'P'),
      rate('F: fetch, samples/s', 'F'),
    ];
    if (now.stalls === null) return list;
    for (const [name, label] of parts)
      list.push([label + ', of an epoch', words.share(base.stalls[name]), words.share(now.stalls[name]), points(base.stalls[name], now.stalls[name])]);
    return list;
  }

  function comparison(base) {
    const body = make('tbody');
    const columns = ['By the profile’s rates', 'With the sliders', 'Change'].map((text) => make('th', { scope: 'col', class: 'number' }, text));
    const head = make('tr', {}, make('td'), ...columns);
    const title = 'By the profile’s rates, and as the sliders stand';
    const table = make('div', { class: 'scroll', role: 'group', tabindex: '0', 'aria-label': title },
      make('table', { class: 'whatif-table' }, make('caption', {}, title), make('thead', {}, head), body));
    const cells = rows(base, base).map(([label]) => {
      const row = [1, 2, 3].map(() => make('td', { class: 'number' }));
      body.append(make('tr', {}, make('th', { scope: 'row' }, label), ...row));
      return row;
    });
    const show = (now) => rows(base, now).forEach(([, ...texts], at) => texts.forEach((text, column) => { cells[at][column].textContent = text; }));
    return { element: table, show: show };
  }

  // What must be borne in mind at this position.
  function remarks(model, position) {
    const list = [];
    if (model.enough_workers)
      list.push('These figures are for a loader with as many workers as it needs; dsanalyze whatif --find workers says how many that is here.');
    if (model.interference > 0)
      list.push('As measured, the full run reached ' + words.number(model.attained) + ' samples/s; interference took ' + words.share(model.interference) +
        ' of its epoch. The figures here are by the rates, which do not know of it.');
    const high = model.prep_scaling.measured_cores_high;
    if (position.cores && high !== null && position.cores > high)
      list.push('P was measured on up to ' + words.number(high) + (high === 1 ? ' core' : ' cores') + '; beyond, it is extrapolated ' +
        (model.prep_scaling.fit.contention > 0 || model.prep_scaling.fit.coherence > 0 ? 'by the fitted scalability law.' : 'as if prep scaled linearly.'));
    if (whatif.compute(model, position).extrapolation > whatif.mostExtrapolation)
      list.push('A resource is more than ' + whatif.mostExtrapolation + ' times what was measured: this is an estimate, never certain.');
    if (model.cache.without && position.cache_fraction) list.push('The profile ran without a cache; answers with one are those of --cache minio.');
    if (model.cache.name !== 'minio') list.push('The cache is “' + model.cache.name + '”; its misses are those of a model of it.');
    return list.join(' ');
  }

  function mount(element, model) {
    if (!model) {
      element.replaceChildren(make('p', { class: 'muted' }, 'The profile lacks one of the rates P, C and S, so nothing can be said about other configurations.'));
      return;
    }
    mounted += 1;
    const prefix = 'whatif-' + mounted + '-';
    const base = whatif.compute(model, {});
    const result = make('p', { class: 'whatif-result' });
    const status = make('p', { class: 'whatif-status', role: 'status' });
    const remark = make('p', { class: 'whatif-remark' });
    const command = make('code', { class: 'whatif-command' });
    const bar = epochBar();
    const table = comparison(base);
    let sliders = [];
    let announcement = 0;

    const position = () => {
      const names = {};
      sliders.forEach((slider, at) => {
        if (slider.value() !== null) names[model.sliders[at].name] = slider.value();
      });
      return names;
    };
    const show = () => {
      const at = position();
      const now = whatif.compute(model, at);
      result.textContent = words.sentence(now);
      remark.textContent = remarks(model, at);
      command.textContent = whatif.commandLine(model, at);
      bar.show(now.stalls);
      table.show(now);
      element.dispatchEvent(new CustomEvent('whatif', { detail: { position: at, result: now } }));
    };
    // Read aloud once the slider rests, not at each step.
    const announce = () => {
      window.clearTimeout(announcement);
      announcement = window.setTimeout(() => { status.textContent = result.textContent; }, 400);
    };
    const changed = () => {
      show();
      announce();
    };

    sliders = model.sliders.map((slider) => sliderRow(slider, model, prefix + slider.name, changed));
    const reset = make('button', { type: 'button', class: 'whatif-reset' }, 'Back to as profiled');
    reset.addEventListener('click', () => {
      sliders.forEach((slider) => slider.reset());
      changed();
    });
    const legend = make('legend', {}, 'Move what you could change');
    const form = make('fieldset', { class: 'whatif-sliders' }, legend, ...sliders.map((slider) => slider.element), reset);
    element.replaceChildren(
      form, result, bar.element, status, remark, table.element,
      make('p', { class: 'whatif-note muted' },
        'Computed in this page by the equations of dsanalyze whatif: samples/s = min(F, P, G), steady state, stages that overlap fully' +
        (model.emulated ? ', some of the rates emulated' : '') + '. Where two of the rates are within about 10 % of each other this is optimistic, because ' +
        'stages then wait for one another' + (model.enough_workers ? '.' : '; add --simulate for the epoch simulator.')),
      ...(model.enough_workers ? [] : [make('p', { class: 'whatif-note muted' }, 'The same answer in a terminal: ', command)]));
    show();
  }

  whatif.mount = mount;
}());
