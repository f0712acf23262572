"""continuity_test.py ROOT: tests the shapes and rules of bench/continuity.py, without torch."""

import pathlib
import sys
import unittest

ROOT = pathlib.Path(sys.argv[1])
sys.path.insert(0, str(ROOT / "bench"))

import continuity_rules as rules  # noqa: E402
import continuity_shapes as shapes  # noqa: E402
import sets  # noqa: E402


class Shapes(unittest.TestCase):
    def test_every_kind_of_step_changes_a_size(self):
        self.assertEqual([shapes.moved(4096, step) for step in shapes.EVERY],
                         [4088, 4092, 4094, 4095, 4097, 4098, 4100, 4104, 4160, 4099, 4224, 4342,
                          8192])
        self.assertEqual(shapes.moved(1000, shapes.LINE), 1024)
        self.assertEqual(shapes.moved(1, shapes.PRIME), 2)

    def test_every_base_names_a_case_and_its_letters(self):
        smoke = {case.kernel: case for case in sets.smoke()}
        for base in (*shapes.BASES, *shapes.SMOKE):
            letters = shapes.OPERATIONS[base.kernel].letters
            self.assertEqual(len(base.shape), len(letters), base)
            self.assertEqual(len(smoke[base.kernel].shape), len(letters), base)
            self.assertLessEqual(set(base.steps), set(letters), base)
        self.assertEqual({base.kernel for base in shapes.SMOKE}, set(shapes.OPERATIONS))
        self.assertEqual({base.kernel for base in shapes.BASES}, set(shapes.OPERATIONS))

    def test_a_base_lists_each_call_once_the_important_ones_first(self):
        found = shapes.pairs_of(shapes.BASES[0])
        calls = [pair.adjacent.call for pair in found]
        self.assertEqual(len(calls), len(set(calls)))
        self.assertEqual(calls[:4], ["4096x4097x4096", "4096x4096x4097", "4097x4096x4096",
                                     "4096x4104x4096"])
        self.assertIn("4096x4096x4096:address+2", calls)
        self.assertIn("4096x4096x4096:pitch+64", calls)
        self.assertNotIn("4096x4096x4096", calls)

    def test_a_call_names_its_address_and_its_pitch(self):
        self.assertEqual(str(sets.Wanted("rms_norm", (4, 8), "f32", 2)),
                         "rms_norm 4x8:address+2 f32")
        self.assertEqual(sets.Wanted("rms_norm", (4, 8), pitch=64).call, "4x8:pitch+64")
        self.assertEqual(str(shapes.pairs_of(shapes.SMOKE[0])[0]), "matmul_nt 24x40x32 bf16, N+1")

    def test_pairs_know_whether_they_are_aligned(self):
        aligned = {pair.step: pair.aligned for pair in shapes.pairs_of(shapes.BASES[0])}
        self.assertEqual([aligned[step] for step in ("N+8", "N+4", "K line", "address+8", "pitch+4",
                                                     "pitch+8")],
                         [True, False, True, False, False, True])

    def test_sizes_that_an_operation_rejects_are_left_out(self):
        base = shapes.Base("attention", (1, 64, 2, 2, 256), {"D": (-8, -4, 8)})
        self.assertEqual([pair.sizes for pair in shapes.pairs_of(base)], [(256, 248)])
        base = shapes.Base("attention", (1, 64, 8, 2, 64), {"A": (-1, 2), "K": (1, 2)})
        self.assertEqual([pair.adjacent.shape[2:4] for pair in shapes.pairs_of(base)],
                         [(10, 2), (8, 4)])
        one = shapes.Base("matmul_nt", (1, 64, 64), {"M": (-1, 1)})
        self.assertEqual([pair.sizes for pair in shapes.pairs_of(one)], [(1, 2)])

    def test_pairs_are_grouped_by_base(self):
        found = shapes.pairs()
        starts = [pair.base for i, pair in enumerate(found)
                  if i == 0 or pair.base != found[i - 1].base]
        self.assertEqual(len(starts), len(set(starts)))
        self.assertEqual(len(starts), len(shapes.BASES))
        self.assertLessEqual(len(found), 420)

    def test_a_quick_run_has_sixty_pairs_of_every_kernel(self):
        quick = shapes.quick()
        self.assertEqual(len(quick), 60)
        self.assertEqual({pair.base.kernel for pair in quick}, set(shapes.OPERATIONS))
        self.assertLessEqual(set(quick), set(shapes.pairs()))
        self.assertEqual(shapes.quick(shapes.bases_of(["adamw"]))[0].base.kernel, "adamw")

    def test_one_place_is_scanned_finely(self):
        found = shapes.pairs((shapes.around("matmul_nt", (4096, 4096, 4090)),))
        self.assertLessEqual(set(range(4082, 4099)) - {4090}, {
            pair.adjacent.shape[2] for pair in found})
        with self.assertRaisesRegex(ValueError, "expected 3 sizes MxNxK, got 4096x4096"):
            shapes.around("matmul_nt", (4096, 4096))

    def test_unknown_kernels_are_refused_with_the_known_ones(self):
        with self.assertRaises(KeyError) as caught:
            shapes.bases_of(["nothing"])
        self.assertIn("unknown kernels: nothing; expected names from matmul_nt",
                      caught.exception.args[0])


def pair(before, after, sizes=(4096, 4097), aligned=False, floors=(1.0, 1.0), **more):
    """Returns a row of a pair with steady times."""
    many = lambda us: us if isinstance(us, list) else [us] * 3  # noqa: E731
    return {"kernel": "rms_norm", "pass": "bwd", "dtype": "bf16", "base": "64x4096",
            "adjacent": "64x4097", "step": "H+1", "sizes": list(sizes), "aligned": aligned,
            "base_us": many(before), "us": many(after), "base_floor_us": floors[0],
            "floor_us": floors[1], **more}


def peers(ours, errors=None, **times):
    errors = errors or {}
    return {"kernel": "rms_norm", "pass": "bwd", "dtype": "bf16", "call": "64x4096",
            "us": [ours] * 3, "floor_us": 1.0,
            "peers": {name: {"us": us if isinstance(us, list) else [us] * 3,
                             "max_error": errors.get(name, 1e-3)} for name, us in times.items()}}


LINE = "rms_norm bwd bf16 64x4096 64x4097 1.60 2030-01-02 two-byte loads: store whole lines\n"
KEY = ("rms_norm", "bwd", "bf16", "64x4096", "64x4097")


def judge(pairs=(), peer_rows=(), known=""):
    return rules.judge(pairs, peer_rows, rules.read_known(known))


class Rules(unittest.TestCase):
    def broken(self, *pairs, **more):
        return len(judge(pairs, **more).broken)

    def test_the_floor_is_the_longer_of_bytes_and_flops(self):
        self.assertAlmostEqual(rules.floor_us(4.2e6), 1)
        self.assertAlmostEqual(rules.floor_us(4.2e6, 2 * 787e6), 2)
        self.assertAlmostEqual(rules.floor_us(2 * 3 * 4096**2, 2 * 4096**3), 174.64, places=1)

    def test_adjacent_calls_may_differ_by_a_quarter(self):
        self.assertEqual(self.broken(pair(100, 124)), 0)
        self.assertEqual(self.broken(pair(100, 126)), 1)
        self.assertEqual(self.broken(pair(126, 100)), 1)  # a slow base call breaks the rule, too

    def test_aligned_calls_may_differ_by_a_tenth(self):
        self.assertEqual(self.broken(pair(100, 109, (4096, 4104), True)), 0)
        self.assertEqual(self.broken(pair(100, 112, (4096, 4104), True)), 1)
        self.assertEqual(self.broken(pair(100, 112, (4096, 4104), False)), 0)

    def test_times_are_divided_by_the_floor(self):
        self.assertEqual(self.broken(pair(100, 200, floors=(10.0, 20.0))), 0)
        self.assertEqual(self.broken(pair(100, 100, floors=(20.0, 10.0))), 1)

    def test_only_the_larger_of_distant_sizes_breaks_the_rule(self):
        small_is_slow = dict(floors=(1.0, 2.0))
        self.assertEqual(self.broken(pair(100, 130, (64, 128), True, **small_is_slow)), 0)
        self.assertEqual(self.broken(pair(100, 230, (64, 128), True, **small_is_slow)), 1)
        self.assertEqual(self.broken(pair(230, 100, (128, 64), True, floors=(2.0, 1.0))), 1)
        self.assertEqual(self.broken(pair(130, 100, (128, 64), True, floors=(2.0, 1.0))), 0)

    def test_addresses_and_pitches_have_no_sizes(self):
        self.assertEqual(self.broken(pair(100, 120, ())), 0)
        self.assertEqual(self.broken(pair(100, 130, ())), 1)

    def test_repeats_that_disagree_are_not_judged(self):
        found = judge([pair([100, 100, 100], [190, 200, 210])])
        self.assertEqual((len(found.unsteady), found.broken, found.failed), (1, [], False))
        # both calls slow down together, so their ratio is steady
        found = judge([pair([100, 110, 120], [200, 220, 240])])
        self.assertEqual((found.unsteady, len(found.broken)), ([], 1))

    def test_a_call_has_nearly_the_speed_of_the_best_peer(self):
        self.assertEqual(self.broken(peer_rows=[peers(100, torch=96)]), 0)
        self.assertEqual(self.broken(peer_rows=[peers(100, torch=94)]), 1)
        text, = judge(peer_rows=[peers(100, torch=90, quack=80)]).broken
        self.assertEqual(text, "rms_norm bwd bf16 64x4096 peer 1.25: 0.80 of the speed of quack, "
                               "limit 0.95")

    def test_wrong_and_unsteady_peers_do_not_count(self):
        self.assertEqual(self.broken(peer_rows=[peers(100, torch=50, errors={"torch": 0.5})]), 0)
        self.assertEqual(self.broken(peer_rows=[peers(100, torch=[50, 50, 60])]), 0)
        self.assertEqual(self.broken(peer_rows=[peers(100)]), 0)

    def test_a_new_cliff_fails_and_names_the_slow_call(self):
        found = judge([pair(100, 160)])
        self.assertTrue(found.failed)
        self.assertEqual(found.broken, [
            "rms_norm bwd bf16 64x4096 64x4097 1.6: unit times 100.00 and 160.00, limit 1.25; "
            "slow: 64x4097"])

    def test_a_known_cliff_passes_with_its_reason_unless_it_grows(self):
        found = judge([pair(100, 170)], known=LINE)
        self.assertFalse(found.failed)
        self.assertIn("since 2030-01-02: two-byte loads: store whole lines", found.known[0])
        found = judge([pair(100, 180)], known=LINE)
        self.assertTrue(found.failed)
        self.assertIn("line 1 of the list has the ratio 1.6", found.broken[0])

    def test_a_line_without_a_cliff_must_be_removed(self):
        found = judge([pair(100, 110)], known=LINE)
        self.assertTrue(found.failed)
        self.assertIn("remove line 1 of the list", found.gone[0])
        # a cliff close to the limit may come back in the next run, so its line stays
        self.assertFalse(judge([pair(100, 123)], known=LINE).failed)

    def test_a_line_without_a_row_stays(self):
        self.assertFalse(judge([pair(100, 110, adjacent="64x4104")], known=LINE).failed)
        self.assertFalse(judge([pair([100, 100, 100], [90, 100, 110])], known=LINE).failed)

    def test_a_known_slow_call_compared_with_a_peer(self):
        line = "rms_norm bwd bf16 64x4096 peer 1.30 2030-01-02 one wave more\n"
        self.assertFalse(judge(peer_rows=[peers(130, torch=100)], known=line).failed)
        self.assertTrue(judge(peer_rows=[peers(100, torch=100)], known=line).gone)

    def test_lines_have_a_date_and_a_reason(self):
        self.assertEqual(set(rules.read_known("# text\n\n" + LINE)), {KEY})
        for text in ("rms_norm bwd bf16 64x4096 64x4097 1.60 2030-01-02\n", LINE + LINE,
                     LINE.replace("1.60", "much"), LINE.replace("2030-01-02", "soon")):
            with self.assertRaises(ValueError, msg=text):
                rules.read_known(text)

    def test_curves_have_the_unit_time_of_each_size(self):
        found = rules.curves([pair(100, 160), pair(100, 110, (4096, 4104), step="H+8"),
                              pair(100, 100, ()), pair([100, 100, 100], [90, 100, 110], (4096, 4))])
        self.assertEqual(found, {("rms_norm", "bwd", "bf16", "64x4096", "H"): {
            4096: 100, 4097: 160, 4104: 110}})


class List(unittest.TestCase):
    """Tests bench/known_cliffs.txt."""

    KNOWN = rules.read_known(rules.KNOWN.read_text())

    def test_a_full_run_measures_every_line(self):
        pairs = {(each.base.kernel, name, each.base.dtype, each.base.call, each.adjacent.call):
                 each for each in shapes.pairs() for name in each.operation.passes}
        calls = {(*key[:3], call, rules.PEER) for key in pairs for call in key[3:]}
        self.assertLessEqual(set(self.KNOWN), set(pairs) | calls)

    def test_every_line_breaks_its_rule(self):
        limits = {(each.base.call, each.adjacent.call): (
            rules.ALIGNED_LIMIT if each.aligned else rules.LIMIT) for each in shapes.pairs()}
        for (*_, base, adjacent), line in self.KNOWN.items():
            limit = 1 / rules.LEAST_OF_PEER if adjacent == rules.PEER else limits[base, adjacent]
            self.assertGreater(line.cliff.ratio, limit, line)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
