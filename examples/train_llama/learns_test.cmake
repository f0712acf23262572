# Tests a tiny run. The loss falls equally with both kinds of attention. Every library operation
# that the model calls passes its gates. A resumed run writes the same checkpoint bytes as an
# uninterrupted one. Resuming with wrong options is refused.
set(text ${CMAKE_CURRENT_LIST_DIR})
file(REMOVE_RECURSE ${WORK})
file(MAKE_DIRECTORY ${WORK})

function(train expected log)
  execute_process(COMMAND ${TRAIN} --layers 2 --width 32 --heads 4 --kv-heads 2 --ffn 48 --context 32 --batch 4 --steps 40
                          --warmup 4 --eval-batches 2 --no-loss-svg --text ${text}/model.cpp ${text}/ops.cpp ${ARGN}
                  RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT status EQUAL ${expected})
    message(FATAL_ERROR "train_llama ${ARGN}: exit status ${status}, expected ${expected}\n${output}")
  endif()
  if(NOT output MATCHES "${log}")
    message(FATAL_ERROR "train_llama ${ARGN}: no match for '${log}' in\n${output}")
  endif()
endfunction()

train(0 "--- sample ---.*adamw" --sample 20 --checkpoint ${WORK}/whole --json ${WORK}/whole.json)
file(READ ${WORK}/whole.json results)
string(JSON first GET "${results}" training 0 1)
string(JSON held_out GET "${results}" held_out_bits)
string(JSON steps GET "${results}" training 39 0)
if(NOT steps EQUAL 40)
  message(FATAL_ERROR "the loss curve ends at step ${steps}, expected 40")
endif()
# An untrained model has a loss of about 8 bits per byte, the entropy of a random byte.
if(NOT first GREATER 7.5 OR NOT held_out LESS 6.5)
  message(FATAL_ERROR "the loss did not fall: ${first} bits per byte at the first step, ${held_out} held out at the end")
endif()

foreach(attention fused products)
  train(0 "attention ${attention}" --sample 0 --no-table --attention ${attention} --json ${WORK}/${attention}.json)
  file(READ ${WORK}/${attention}.json results)
  string(JSON bits GET "${results}" held_out_bits)
  string(SUBSTRING "${bits}0000" 0 6 bits)
  string(REPLACE "." "" ${attention} ${bits})
endforeach()
math(EXPR difference "${fused} - ${products}")
if(difference GREATER 50 OR difference LESS -50)
  message(FATAL_ERROR "fused attention and attention by matmuls differ by ${difference} / 10000 bits per byte")
endif()

train(0 "step +20/40" --sample 0 --no-table --checkpoint ${WORK}/half --stop-after 20)
train(0 "step +40/40" --sample 0 --no-table --checkpoint ${WORK}/resumed --resume ${WORK}/half)
execute_process(COMMAND ${CMAKE_COMMAND} -E compare_files ${WORK}/whole ${WORK}/resumed RESULT_VARIABLE differs)
if(differs)
  message(FATAL_ERROR "a resumed run ended with other bytes than one that never stopped")
endif()

train(1 "another model: layers 2 .this run: 3." --resume ${WORK}/half --layers 3)
file(WRITE ${WORK}/other "this is a text file and no checkpoint")
train(1 "checkpoint .*not a checkpoint" --resume ${WORK}/other)
train(2 "expected cpu or cuda:N" --device tpu)
