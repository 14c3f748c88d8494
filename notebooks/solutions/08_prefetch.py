# %% 08
persistent = 6 * 8 * 128 + 2 * 32  # Q (f16) and O (f32); m and l
two_buffers = 2 * 2 * 128 * 2  # B a key: K and V, twice, f16
scores = 18 * 8  # B a key: four f32 and one f16 of 8 rows
fixed = 12 * 8 * 128 + 7 * 32  # O*c, p*V, O_new; seven of 8 rows
answer = (1_048_576 - persistent - fixed) // (two_buffers + scores)

kb.check_answer("08", answer)
