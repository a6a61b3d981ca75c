// The sliders of the page's what-if: DsanalyzeWhatIf.mount(element, live). Each walks the answers that `dsanalyze whatif` gave to one change alone when
// the page was made; nothing is computed but ratios of two answers.
(function () {
  'use strict';

  const mostExtrapolation = 4;

  // ---- Words.

  // A decimal that reads back as the same number, without the noise of binary fractions: 35, not 35.00000000000001.
  function plain(value) {
    return String(Number(value.toPrecision(12)));
  }

  function roundNumber(value) {
    const digits = Math.abs(value) >= 99.5 ? { maximumFractionDigits: 0 } : { maximumSignificantDigits: 3 };
    return value.toLocaleString('en-US', digits);
  }

  function share(value) {
    return roundNumber(Math.round(value * 1000) / 10) + ' %';
  }

  function duration(seconds) {
    if (seconds === null) return 'not known';
    if (seconds < 59.95) return roundNumber(seconds) + ' s';
    const whole = Math.round(seconds);
    const two = (value) => String(value).padStart(2, '0');
    if (whole < 3600) return Math.floor(whole / 60) + ' min ' + two(whole % 60) + ' s';
    const minutes = Math.floor((whole + 30) / 60);
    return roundNumber(Math.floor(minutes / 60)) + ' h ' + two(minutes % 60) + ' min';
  }

  const resources = { gpu: 'the accelerators [G]', cpu: 'prep [P]', io: 'fetch [F]' };
  const details = {
    transfer: 'copies to the GPU [H]', latency: 'prep [P], which waits and hardly uses the CPU', cores: 'the cores, which prep and training share',
    delivery: 'taking batches over', outside: 'what lies outside of the steps', storage: 'storage [S]',
  };
  const bottleneck = (answer) => details[answer.bottleneck_detail] || resources[answer.bottleneck];

  const counted = (value, one) => plain(value) + ' ' + one + (value === 1 ? '' : 's');
  const times = (value) => plain(value) + 'x';
  const percents = (value) => plain(value * 100) + '%';
  const axes = {
    workers: { label: 'num_workers', text: (value) => counted(value, 'worker'), option: (value) => '--workers ' + plain(value) },
    cores: { label: 'CPU cores', text: (value) => counted(value, 'core'), option: (value) => '--cores ' + plain(value) },
    cache_fraction: { label: 'Cache, of the dataset', text: share, option: (value) => '--cache-size ' + percents(value) },
    accelerator_speed: { label: 'Speed of an accelerator', text: times, option: (value) => '--accelerator-speed ' + times(value) },
    storage_factor: { label: 'Storage speed', text: times, option: (value) => '--storage ' + times(value) },
  };

  function sentence(now) {
    const range = roundNumber(now.ci95_samples_per_s.low) + ' to ' + roundNumber(now.ci95_samples_per_s.high);
    const change = Math.abs(now.speedup - 1) < 5e-4 ? 'as without a change' : plain(Number(now.speedup.toPrecision(3))) + ' times that without the change';
    const epoch = now.epoch_seconds === null ? '' : ', ' + duration(now.epoch_seconds) + ' an epoch';
    const end = now.too_close ? ', which is inconclusive: the intervals overlap.' : '.';
    const sides = now.G === null ? ' The accelerators’ rate is not known: this is what the data side can feed.' : '';
    return roundNumber(now.samples_per_s) + ' samples/s (95 %: ' + range + '), ' + change + epoch + '. The bottleneck is ' + bottleneck(now) + end + sides;
  }

  // ---- Parts of the page.

  let mounted = 0;

  function make(tag, attributes, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) element.setAttribute(name, value);
    element.append(...children);
    return element;
  }

  function sliderRow(axis, id, moved) {
    const words = axes[axis.name];
    const start = axis.answers.findIndex((answer) => answer.x === axis.now);
    const input = make('input', {
      type: 'range', id: id, min: '0', max: String(axis.answers.length - 1), step: '1', value: String(start), 'data-slider': axis.name, autocomplete: 'off',
    });
    const output = make('output', { for: id });
    const row = { element: make('div', { class: 'whatif-row' }, make('label', { for: id }, words.label), input, output) };
    row.show = () => {
      const text = words.text(axis.answers[Number(input.value)].x) + (Number(input.value) === start ? ', as profiled' : '');
      output.textContent = text;
      input.setAttribute('aria-valuetext', text);
    };
    row.reset = () => {
      input.value = String(start);
      row.show();
    };
    input.addEventListener('input', () => {
      row.show();
      const answer = axis.answers[Number(input.value)];
      moved(row, Number(input.value) === start ? {} : { [axis.name]: answer.x }, answer);
    });
    row.show();
    return row;
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
        shares[at].textContent = share(stalls[name]);
      });
    };
    return { element: element, show: show };
  }

  function rows(base, now) {
    const number = (value) => (value === null ? 'not known' : roundNumber(value));
    const factor = (before, after) => (before === null || after === null ? '' : (after / before).toFixed(2) + 'x');
    const points = (before, after) => {
      const text = ((after - before) * 100).toFixed(1);
      return Number(text) === 0 ? 'none' : (after > before ? '+' : '') + text + ' points';
    };
    const rate = (label, name) => [label, number(base[name]), number(now[name]), factor(base[name], now[name])];
    const list = [
      rate('Samples/s', 'samples_per_s'),
      ['Time of an epoch', duration(base.epoch_seconds), duration(now.epoch_seconds), factor(base.epoch_seconds, now.epoch_seconds)],
      ['The bottleneck', bottleneck(base), bottleneck(now), bottleneck(base) === bottleneck(now) ? 'the same' : 'another'],
      rate('G: accelerators, samples/s', 'G'),
      rate('P: prep, samples/s', 'P'),
      rate('F: fetch, samples/s', 'F'),
    ];
    if (now.stalls === null) return list;
    for (const [name, label] of parts) list.push([label + ', of an epoch', share(base.stalls[name]), share(now.stalls[name]), points(base.stalls[name], now.stalls[name])]);
    return list;
  }

  function comparison(base) {
    const body = make('tbody');
    const columns = ['Unchanged', 'With the slider', 'Change'].map((text) => make('th', { scope: 'col', class: 'number' }, text));
    const head = make('tr', {}, make('td'), ...columns);
    const title = 'Unchanged, and as the slider stands';
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

  function mount(element, live) {
    mounted += 1;
    const prefix = 'whatif-' + mounted + '-';
    const result = make('p', { class: 'whatif-result' });
    const status = make('p', { class: 'whatif-status', role: 'status' });
    const remark = make('p', { class: 'whatif-remark' });
    const command = make('code', { class: 'whatif-command' });
    const bar = epochBar();
    const table = comparison(live.base);
    let announcement = 0;

    const show = (position, answer) => {
      const now = { ...answer, speedup: answer.samples_per_s / live.base.samples_per_s };
      result.textContent = sentence(now);
      remark.textContent = now.extrapolation > mostExtrapolation
        ? 'A resource is more than ' + mostExtrapolation + ' times what was measured: this is an estimate, never certain.' : '';
      command.textContent = [live.command, ...Object.entries(position).map(([name, value]) => axes[name].option(value))].join(' ');
      bar.show(now.stalls);
      table.show(now);
      element.dispatchEvent(new CustomEvent('whatif', { detail: { position: position, result: now } }));
    };
    const moved = (row, position, answer) => {
      sliders.filter((other) => other !== row).forEach((other) => other.reset());
      show(position, answer);
      // Read aloud once the slider rests, not at each step.
      window.clearTimeout(announcement);
      announcement = window.setTimeout(() => { status.textContent = result.textContent; }, 400);
    };

    const answered = live.axes.filter((axis) => axis.points.length > 0).map((axis) => ({
      ...axis, answers: axis.points.map((point) => Object.fromEntries(live.columns.map((name, at) => [name, point[at]]))),
    }));
    const sliders = answered.map((axis) => sliderRow(axis, prefix + axis.name, moved));
    const absent = live.axes.filter((axis) => axis.points.length === 0).map((axis) =>
      make('p', { class: 'whatif-absent muted' }, make('strong', {}, axes[axis.name].label + ': '), axis.why_absent));
    const reset = make('button', { type: 'button', class: 'whatif-reset' }, 'Back to as profiled');
    reset.addEventListener('click', () => moved(null, {}, live.base));
    const legend = make('legend', {}, 'Move what you could change');
    element.replaceChildren(
      make('fieldset', { class: 'whatif-sliders' }, legend, ...sliders.map((slider) => slider.element), ...absent, reset),
      result, bar.element, status, remark, table.element,
      make('p', { class: 'whatif-note muted' },
        'Answered by dsanalyze whatif when this page was made, one change at a time; between the points nothing is computed. For combinations, add --all.'),
      make('p', { class: 'whatif-note muted' }, 'The same answer in a terminal: ', command));
    show({}, live.base);
  }

  window.DsanalyzeWhatIf = { mount: mount };
}());
