; histogram: 8 lanes
declare <8 x i32> @llvm.masked.load.v8i32.p0(ptr, i32, <8 x i1>, <8 x i32>)

define void @"histogram"(ptr noalias %arguments, ptr noalias %counter, i64 %groups, i64 %chunk) nounwind "min-legal-vector-width"="512" "prefer-vector-width"="512" {
entry:
  %s0 = getelementptr i64, ptr %arguments, i64 0
  %p0 = load i32, ptr %s0
  %s1 = getelementptr i64, ptr %arguments, i64 1
  %p1 = load ptr, ptr %s1
  %s2 = getelementptr i64, ptr %arguments, i64 2
  %p2 = load i32, ptr %s2
  %s3 = getelementptr i64, ptr %arguments, i64 3
  %p3 = load ptr, ptr %s3
  %m0 = alloca [64 x i8], align 64
  %groups32 = trunc i64 %groups to i32
  br label %take
take:
  %first = atomicrmw add ptr %counter, i64 %chunk monotonic
  %more = icmp ult i64 %first, %groups
  br i1 %more, label %begin, label %finished
begin:
  %wanted = add i64 %first, %chunk
  %fits = icmp ult i64 %wanted, %groups
  %last = select i1 %fits, i64 %wanted, i64 %groups
  br label %group
group:
  %index = phi i64 [ %first, %begin ], [ %following, %next ]
  %group32 = trunc i64 %index to i32
  %v0 = mul i32 %groups32, 8
  %v1 = mul i32 %group32, 8
  %v2 = insertelement <8 x i32> poison, i32 %v1, i64 0
  %v3 = shufflevector <8 x i32> %v2, <8 x i32> poison, <8 x i32> zeroinitializer
  %v4 = add <8 x i32> %v3, <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>
  %v5 = insertelement <8 x i32> poison, i32 %p0, i64 0
  %v6 = shufflevector <8 x i32> %v5, <8 x i32> poison, <8 x i32> zeroinitializer
  %v7 = insertelement <8 x i32> poison, i32 %v0, i64 0
  %v8 = shufflevector <8 x i32> %v7, <8 x i32> poison, <8 x i32> zeroinitializer
  %v9 = add i32 %v1, 0
  %v10 = add i32 %v9, 7
  %v11 = icmp ult i32 %v10, %v9
  %v12 = select i1 %v11, i32 7, i32 0
  br label %head14
head14:
  %v16 = phi <8 x i32> [ %v4, %group ], [ %v72, %body15 ]
  %v17 = phi <8 x i1> [ splat (i1 true), %group ], [ %v19, %body15 ]
  %v18 = icmp ult <8 x i32> %v16, %v6
  %v19 = and <8 x i1> %v17, %v18
  %v20 = bitcast <8 x i1> %v19 to i8
  %v21 = icmp ne i8 %v20, 0
  br i1 %v21, label %body15, label %done16
body15:
  %v22 = extractelement <8 x i32> %v16, i64 0
  %v23 = add i32 %v22, %v12
  %v24 = zext i32 %v23 to i64
  %v25 = zext i32 %v12 to i64
  %v26 = sub i64 %v24, %v25
  %v27 = getelementptr i32, ptr %p1, i64 %v26
  %v28 = call <8 x i32> @llvm.masked.load.v8i32.p0(ptr %v27, i32 4, <8 x i1> %v19, <8 x i32> zeroinitializer)
  %v29 = insertelement <8 x i32> poison, i32 %p2, i64 0
  %v30 = shufflevector <8 x i32> %v29, <8 x i32> poison, <8 x i32> zeroinitializer
  %v31 = icmp eq <8 x i32> %v30, zeroinitializer
  %v32 = select <8 x i1> %v31, <8 x i32> splat (i32 1), <8 x i32> %v30
  %v33 = urem <8 x i32> %v28, %v32
  %v34 = select <8 x i1> %v31, <8 x i32> %v28, <8 x i32> %v33
  %v35 = zext <8 x i32> %v34 to <8 x i64>
  %v36 = getelementptr i32, ptr %p3, <8 x i64> %v35
  %v37 = insertelement <8 x ptr> poison, ptr %m0, i64 0
  %v38 = shufflevector <8 x ptr> %v37, <8 x ptr> poison, <8 x i32> zeroinitializer
  %v39 = select <8 x i1> %v19, <8 x ptr> %v36, <8 x ptr> %v38
  %v40 = extractelement <8 x ptr> %v39, i64 0
  %v41 = extractelement <8 x i32> splat (i32 1), i64 0
  %v42 = atomicrmw add ptr %v40, i32 %v41 monotonic
  %v43 = insertelement <8 x i32> poison, i32 %v42, i64 0
  %v44 = extractelement <8 x ptr> %v39, i64 1
  %v45 = extractelement <8 x i32> splat (i32 1), i64 1
  %v46 = atomicrmw add ptr %v44, i32 %v45 monotonic
  %v47 = insertelement <8 x i32> %v43, i32 %v46, i64 1
  %v48 = extractelement <8 x ptr> %v39, i64 2
  %v49 = extractelement <8 x i32> splat (i32 1), i64 2
  %v50 = atomicrmw add ptr %v48, i32 %v49 monotonic
  %v51 = insertelement <8 x i32> %v47, i32 %v50, i64 2
  %v52 = extractelement <8 x ptr> %v39, i64 3
  %v53 = extractelement <8 x i32> splat (i32 1), i64 3
  %v54 = atomicrmw add ptr %v52, i32 %v53 monotonic
  %v55 = insertelement <8 x i32> %v51, i32 %v54, i64 3
  %v56 = extractelement <8 x ptr> %v39, i64 4
  %v57 = extractelement <8 x i32> splat (i32 1), i64 4
  %v58 = atomicrmw add ptr %v56, i32 %v57 monotonic
  %v59 = insertelement <8 x i32> %v55, i32 %v58, i64 4
  %v60 = extractelement <8 x ptr> %v39, i64 5
  %v61 = extractelement <8 x i32> splat (i32 1), i64 5
  %v62 = atomicrmw add ptr %v60, i32 %v61 monotonic
  %v63 = insertelement <8 x i32> %v59, i32 %v62, i64 5
  %v64 = extractelement <8 x ptr> %v39, i64 6
  %v65 = extractelement <8 x i32> splat (i32 1), i64 6
  %v66 = atomicrmw add ptr %v64, i32 %v65 monotonic
  %v67 = insertelement <8 x i32> %v63, i32 %v66, i64 6
  %v68 = extractelement <8 x ptr> %v39, i64 7
  %v69 = extractelement <8 x i32> splat (i32 1), i64 7
  %v70 = atomicrmw add ptr %v68, i32 %v69 monotonic
  %v71 = insertelement <8 x i32> %v67, i32 %v70, i64 7
  %v72 = add <8 x i32> %v16, %v8
  br label %head14
done16:
  br label %next
next:
  %following = add i64 %index, 1
  %again = icmp ult i64 %following, %last
  br i1 %again, label %group, label %take
finished:
  ret void
}
